#include <cmath>
#include <cstdlib>

#include "tests/cli/command_testing.h"

// What a run tells others while it goes on: TensorBoard, early stopping, the best model.
namespace convoy {
namespace {

class Report : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions(120);
  }
};

TEST_F(Report, TensorBoardReadsTheEvents) {
  const char* wheels = std::getenv("CONVOY_TENSORBOARD");
  if (!wheels || !fs::exists(fs::path(wheels) / "complete")) {
    GTEST_SKIP() << "TensorBoard is not there; ./dev test fetches it";
  }
  ASSERT_EQ(run("train" + kTiny +
                "--max_steps 6 --eval_strategy steps --eval_steps 3 "
                "--output_dir out --save_strategy no --report_to tensorboard"),
            0)
      << output_;
  ASSERT_EQ(shell(std::string("PYTHONPATH=") + wheels +
                  " python3 " CONVOY_SOURCE_DIR "/tests/cli/read_events.py out/runs 2> errors"),
            0)
      << output_ << read_file(folder_ / "errors");
  const auto events = parse_json(output_, "events");
  std::map<int64_t, Json> logged;
  const auto state = json("out/trainer_state.json");
  for (const auto& entry : state["log_history"]) {
    logged[entry["step"].get<int64_t>()].update(entry);
  }
  const auto check = [&](const std::string& tag, const std::string& key, size_t times) {
    ASSERT_TRUE(events.contains(tag)) << output_;
    ASSERT_EQ(events[tag].size(), times) << tag;
    for (const auto& point : events[tag]) {
      const double expected = logged.at(point[0].get<int64_t>()).at(key);
      EXPECT_NEAR(point[1].get<double>(), expected, 1e-6 * std::abs(expected)) << tag;
    }
  };
  check("train/loss", "loss", 6);
  check("train/learning_rate", "learning_rate", 6);
  check("eval/loss", "eval_loss", 2);
  check("eval/ndcg_at_10", "eval_ndcg_at_10", 2);
}

TEST_F(Report, EarlyStoppingEndsWithTheBestModel) {
  // So fast that it overshoots: a later evaluation is worse.
  const auto common = "train" + kTiny +
                      "--num_train_epochs 40 --learning_rate 0.2 --lr_scheduler_type constant "
                      "--eval_strategy epoch --save_strategy epoch --save_total_limit 1 "
                      "--metric_for_best_model loss --early_stopping_patience 2 "
                      "--load_best_model_at_end ";
  ASSERT_EQ(run(common + "--output_dir out"), 0) << output_;
  expect("stopping early: no better loss in 2 evaluations");
  const auto state = json("out/trainer_state.json");
  const auto best = state["best_global_step"].get<int64_t>();
  const auto last = state["global_step"].get<int64_t>();
  EXPECT_EQ(last, best + 2 * 15) << "two epochs of 15 steps after the best";
  expect("the model is the best one, of step " + std::to_string(best));
  const auto name = "checkpoint-" + std::to_string(best);
  const auto checkpoint = "out/" + name;
  EXPECT_EQ(state["best_model_checkpoint"], name);
  EXPECT_EQ(read_file(folder_ / "out/model.safetensors"),
            read_file(folder_ / checkpoint / "model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / ("out/checkpoint-" + std::to_string(last)) / "config.json"))
      << "the last step is kept for resuming";
  EXPECT_NEAR(json("out/eval_results.json")["eval_loss"].get<double>(),
              state["best_metric"].get<double>(), 1e-12);
  ASSERT_EQ(run("eval out --json"), 0) << output_;
  EXPECT_NEAR(parse_json(output_, "eval")["eval_loss"].get<double>(),
              state["best_metric"].get<double>(), 1e-6);
}

TEST_F(Report, BestModelIsFoundWhereverTheRunGoesOn) {
  const auto common = "train" + kTiny +
                      "--max_steps 12 --eval_strategy steps --eval_steps 3 --save_steps 6 "
                      "--load_best_model_at_end --learning_rate 0.3 ";
  // Against the grain, so that the best is an early one.
  const std::string backwards = "--metric_for_best_model loss --greater_is_better true ";
  ASSERT_EQ(run(common + backwards + "--output_dir a"), 0) << output_;
  const auto best = json("a/trainer_state.json")["best_global_step"].get<int64_t>();
  ASSERT_LT(best, 12);
  ASSERT_EQ(run(common + backwards +
                "--output_dir b --resume_from_checkpoint a/checkpoint-12 "
                "--max_steps 15 --learning_rate 0"),
            0)
      << output_;
  expect("the model is the best one, of step " + std::to_string(best));
  EXPECT_EQ(read_file(folder_ / "a/model.safetensors"), read_file(folder_ / "b/model.safetensors"));
  // Another metric: what was best by the old one does not count.
  ASSERT_EQ(run(common + "--metric_for_best_model ndcg_at_10 --output_dir c --max_steps 15 "
                         "--resume_from_checkpoint a/checkpoint-12"),
            0)
      << output_;
  expect("counted another metric; the best evaluation starts anew");
  EXPECT_LE(json("c/trainer_state.json")["best_metric"].get<double>(), 1);
  // A checkpoint that somebody removed.
  fs::remove_all(folder_ / ("a/checkpoint-" + std::to_string(best)));
  ASSERT_EQ(run(common + backwards +
                "--output_dir d --resume_from_checkpoint a/checkpoint-12 "
                "--max_steps 15 --learning_rate 0"),
            0)
      << output_;
  expect("the checkpoint of the best step " + std::to_string(best) + " is not there");
  EXPECT_TRUE(fs::exists(folder_ / "d/model.safetensors"));
}

TEST_F(Report, DifferentModelIsNotResumed) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 4 --output_dir a"), 0) << output_;
  EXPECT_EQ(run("train" + kTiny +
                "--max_steps 8 --n_head 4 --temperature 2 --output_dir b "
                "--resume_from_checkpoint a/checkpoint-4"),
            2);
  expect(
      "holds another model: this run has n_head = 4 instead of 2, temperature = 2.0 instead of "
      "1.0");
  ASSERT_EQ(run("train" + kTiny + "--max_steps 4 --output_dir a --resume_from_checkpoint latest"),
            0);
  expect("nothing is left to train: a/checkpoint-4 is at step 4 of 4");
}

TEST_F(Report, AMetricThatIsNotThereIsNamed) {
  EXPECT_EQ(run("train" + kTiny +
                "--max_steps 2 --eval_strategy steps --eval_steps 1 "
                "--metric_for_best_model ndgc_at_10 --load_best_model_at_end --output_dir out"),
            2);
  expect("metric_for_best_model = ndgc_at_10 is not among the metrics");
  expect("did you mean 'ndcg_at_10'?");
  EXPECT_EQ(run("train" + kTiny + "--load_best_model_at_end --output_dir out2"), 2);
  expect("load_best_model_at_end needs evaluations; try --eval_strategy epoch");
  ASSERT_EQ(
      run("train" + kTiny + "--max_steps 1 --metric_for_best_model ndcg_at_10 --output_dir out2"),
      0)
      << output_;
  expect("metric_for_best_model = ndcg_at_10 has no effect with eval_strategy = no");
}

TEST_F(Report, ParityShowsWhatItSets) {
  ASSERT_EQ(run("train --parity transformers4rec --dropout 0.2 --print-config"), 0) << output_;
  for (const char* line : {"dropout = 0.2", "score_padding = true", "truncation = \"keep_first\"",
                           "embedding_initializer_range = 0.05", "initializer_range = 0.01"}) {
    expect(line);
  }
  write_file(
      folder_ / "all.toml",
      "[model]\ndropout = 0.2\ninitializer_range = 0.02\nembedding_initializer_range = 0.02\n"
      "score_padding = false\n[data]\ntruncation = \"keep_last\"\n"
      "[train]\nmetric_names = \"plain\"\n");
  const auto parity = "train all.toml --data.path syn --max_steps 1 --parity transformers4rec ";
  ASSERT_EQ(run(parity), 0) << output_;
  expect("warning: --parity transformers4rec does not change what the configuration file sets: ");
  expect("model.dropout = 0.2 instead of 0.3");
  expect("truncation = \"keep_last\" instead of keep_first");
  expect("so it changes nothing");
  ASSERT_EQ(run(parity + std::string("--dropout 0.2 --metric_names transformers4rec")), 0);
  expect("warning: --parity");
  EXPECT_EQ(output_.find("dropout = "), std::string::npos) << "typed, so meant: " << output_;
  EXPECT_FALSE(says("changes nothing")) << output_;
  ASSERT_EQ(run("train" + kTiny +
                "--parity transformers4rec --max_steps 2 --eval_strategy steps "
                "--eval_steps 2 --load_best_model_at_end --output_dir out "
                "--metric_for_best_model /next-item/recall_at_10"),
            0)
      << output_;
  const auto results = json("out/eval_results.json");
  EXPECT_EQ(results["eval_/next-item/ndcg_at_10"], results["eval_ndcg_at_10"]);
  EXPECT_EQ(results["eval_/next-item/avg_precision_at_20"], results["eval_mrr_at_20"]);
}

TEST_F(Report, HalfPrecisionShowsItsScale) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 20 --fp16 --output_dir out"), 0) << output_;
  expect("fp16 with fp32 master weights and a loss scale");
  expect("scale ");
  const auto state = json("out/trainer_state.json");
  EXPECT_GE(state["loss_scale"].get<double>(), 1);
  ASSERT_EQ(run("train" + kTiny + "--fp16 --bf16 --output_dir out2"), 2);
  expect("bf16 and fp16 are both on");
}

TEST_F(Report, BertPredictsHiddenItems) {
  ASSERT_EQ(run("train" + kTiny +
                "--body bert --max_length 8 --max_steps 60 --learning_rate 1e-2 "
                "--output_dir out"),
            0)
      << output_;
  ASSERT_EQ(run("eval out --json 2>/dev/null"), 0) << output_;
  EXPECT_GT(parse_json(output_, "eval")["eval_recall_at_10"].get<double>(), 0.4);
  ASSERT_EQ(run("predict out --top-k 3 --rows 2"), 0) << output_;
  EXPECT_EQ(run("train" + kTiny + "--body bert --masking clm --output_dir out3"), 2);
  expect("masking clm does not go with the body bert");
}

}  // namespace
}  // namespace convoy
