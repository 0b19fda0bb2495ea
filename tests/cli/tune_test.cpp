#include "convoy/base/options.h"
#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

/// Searches, and trainings in parts, of a small session model.
class Tune : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    ASSERT_EQ(run("data synthetic --output syn --items 40 --rows 200 --max-length 8"), 0)
        << output_;
  }

  const std::string kModel =
      " --data.path syn --d_model 8 --n_layer 1 --n_head 2 --per_device_train_batch_size 16 "
      "--max_steps 9 --threads 1 ";
};

TEST_F(Tune, FindsTheBestAndGoesOnFromCheckpoints) {
  const std::string search = "tune" + kModel +
                             "--trials 4 --rungs 2 --try learning_rate=1e-6..1e-1 "
                             "--try body=gpt2,sasrec --output_dir out";
  ASSERT_EQ(run(search), 0) << output_;
  expect("4 trials: 4 to 33.3 % of the steps, 2 to 100 % of the steps; as much as 2.7 whole");
  expect("ndcg_at_10 after each round, with its standard error");
  expect("at 33.3 %");
  const auto trials = json("out/trials.json").at("trials");
  ASSERT_EQ(trials.size(), 4U);
  size_t best = 0, finished = 0;
  double most = -1;
  for (size_t i = 0; i < trials.size(); ++i) {
    const auto& scores = trials[i].at("scores");
    ASSERT_GE(scores.size(), 1U);
    const auto file = fmt::format("out/trial-{}/eval_results.json", i);
    EXPECT_EQ(json(file).at("eval_ndcg_at_10"), scores.back().at("value"));
    EXPECT_TRUE(scores.back().contains("error"));
    if (scores.size() < 2) continue;
    ++finished;
    if (scores[1].at("value") > most) {
      most = scores[1].at("value");
      best = i;
    }
  }
  EXPECT_EQ(finished, 2U);
  expect(fmt::format("best: trial {}", best));
  // The second round went on from the first one's checkpoint.
  const auto log = read_file(folder_ / fmt::format("out/logs/trial-{}.log", best));
  const auto second = log.find("ended after step 3 of 9");
  ASSERT_NE(second, std::string::npos);
  EXPECT_NE(log.find("checkpoint-3 at step 3", second), std::string::npos) << log;
  const auto kept = toml_values(folder_ / "out/best.toml");
  EXPECT_EQ(kept.at("train.save_steps"), "500");
  EXPECT_FALSE(kept.contains("train.stop_steps"));
  ASSERT_EQ(run("train out/best.toml --output_dir again"), 0) << output_;
  EXPECT_TRUE(model_of("again") == model_of(fmt::format("out/trial-{}", best)));
  EXPECT_EQ(json("again/eval_results.json").at("eval_ndcg_at_10"), most);

  const auto before = read_file(folder_ / "out/trials.json");
  ASSERT_EQ(run(search), 0) << output_;
  expect("goes on after 6 trainings that are done");
  EXPECT_FALSE(says("round 1/2")) << output_;
  EXPECT_EQ(read_file(folder_ / "out/trials.json"), before);
  EXPECT_NE(run(search + " --seed 5"), 0);
  expect("out/trials.json is of another search");
  // Nor is a search mixed with one of other data, or with what nobody knows the trials of.
  ASSERT_EQ(run("data synthetic --output syn --items 40 --rows 201 --max-length 8"), 0) << output_;
  EXPECT_NE(run(search), 0);
  expect("out/trials.json is of another search");
  write_file(folder_ / "out/trials.json", before.substr(0, before.size() / 2));
  EXPECT_NE(run(search), 0);
  expect("out/trials.json is not valid JSON");
  expect("or --overwrite_output_dir");
  fs::remove(folder_ / "out/trials.json");
  fs::create_directory(folder_ / "out/trial-mine");
  EXPECT_NE(run(search), 0);
  expect("is of a search whose trials.json is gone");
  EXPECT_TRUE(fs::exists(folder_ / "out/trial-3"));
  ASSERT_EQ(run("tune" + kModel + "--trials 1 --output_dir out --overwrite_output_dir"), 0)
      << output_;
  EXPECT_FALSE(fs::exists(folder_ / "out/trial-3"));
  EXPECT_TRUE(fs::exists(folder_ / "out/trial-mine"));
  EXPECT_NE(run("tune" + kModel + "--trials 1 --output_dir out/trial-0"), 0);
  expect("is the folder of a run");
}

TEST_F(Tune, RefusesBeforeAnythingTrains) {
  const auto refused = [&](const std::string& more, const std::string& sentence) {
    EXPECT_EQ(run("tune" + kModel + "--trials 3 --output_dir out " + more), 2) << more;
    expect(sentence);
    EXPECT_FALSE(fs::exists(folder_ / "out/trial-0")) << more;
  };
  refused("--try lr=1..2", "the run has no option 'lr', did you mean 'learning_rate'?");
  refused("--try n_head=3", "with n_head 3 a training would be refused");
  refused("--try output_dir=a,b", "the search sets dir itself");
  refused("--metric_for_best_model zeal", "nothing tells whether a higher zeal is better");
  ASSERT_EQ(run("data synthetic --output none --items 40 --rows 50 --max-length 8"), 0) << output_;
  fs::remove(folder_ / "none/valid.parquet");
  refused("--try n_layer=1,2 --data.path none", "try --data.valid FILE");
  EXPECT_EQ(run("tune" + kModel), 2);
  expect("try --output_dir runs/tune");
  EXPECT_NE(
      run("tune" + kModel + "--trials 2 --output_dir out --metric_for_best_model recall_at_7"), 0);
  expect("metric_for_best_model = recall_at_7 is not among the metrics");
}

TEST_F(Tune, TellsTrialsThatFail) {
  EXPECT_NE(run("tune" + kModel +
                "--trials 2 --rungs 1 --try learning_rate=1e30,1e31 "
                "--learning_rate 1e32 --max_grad_norm 0 --output_dir out"),
            0);
  expect("failed");
  expect("no training succeeded");
  EXPECT_TRUE(json("out/trials.json").at("trials")[0].contains("failure"));
}

TEST_F(Tune, StopStepsEndsATrainingThatGoesOnAsIfItHadNot) {
  const std::string train = "train" + kModel + "--dropout 0.3 ";
  ASSERT_EQ(run(train + "--output_dir whole"), 0) << output_;
  ASSERT_EQ(run(train + "--stop_steps 4 --output_dir parts"), 0) << output_;
  expect(
      "ended after step 4 of 9, as stop_steps = 4 says; go on with --resume_from_checkpoint "
      "latest");
  EXPECT_FALSE(model_of("parts") == model_of("whole"));
  EXPECT_TRUE(fs::exists(folder_ / "parts/eval_results.json"));
  ASSERT_EQ(run(train + "--stop_steps 0.7 --output_dir parts --resume_from_checkpoint latest"), 0)
      << output_;
  expect("ended after step 7 of 9");
  ASSERT_EQ(run(train + "--stop_steps 7 --output_dir parts --resume_from_checkpoint latest"), 0)
      << output_;
  expect("nothing is left to train");
  expect("try more stop_steps");
  ASSERT_EQ(run(train + "--output_dir parts --resume_from_checkpoint latest"), 0) << output_;
  EXPECT_TRUE(model_of("parts") == model_of("whole"));
  EXPECT_EQ(run(train + "--stop_steps 1.5 --output_dir no"), 2);
  expect("stop_steps");
  EXPECT_EQ(run("train" + kModel + "--windows syn --stop_steps 2 --output_dir no"), 2);
}

TEST_F(Tune, StopStepsAtTheEndOfAnEpochKeepsWhatIsDueThere) {
  const std::string train =
      "train --data.path syn --d_model 8 --n_layer 1 --n_head 2 --per_device_train_batch_size 20 "
      "--num_train_epochs 4 --threads 1 --eval_strategy epoch --save_strategy epoch "
      "--load_best_model_at_end true --learning_rate 3e-2 ";
  ASSERT_EQ(run(train + "--output_dir whole"), 0) << output_;
  ASSERT_EQ(run(train + "--stop_steps 20 --output_dir parts"), 0) << output_;
  ASSERT_EQ(run(train + "--output_dir parts --resume_from_checkpoint latest"), 0) << output_;
  EXPECT_TRUE(model_of("parts") == model_of("whole"));
  const auto evaluations = [&](const std::string& run) {
    std::vector<std::pair<int64_t, double>> out;
    for (const auto& line : split(read_file(folder_ / run / "log.jsonl"), '\n')) {
      if (line.find("eval_loss") == std::string::npos) continue;
      const auto entry = parse_json(line, "log.jsonl");
      out.emplace_back(entry.at("step"), entry.at("eval_loss"));
    }
    return out;
  };
  EXPECT_EQ(evaluations("whole"), evaluations("parts"));
}

}  // namespace
}  // namespace convoy
