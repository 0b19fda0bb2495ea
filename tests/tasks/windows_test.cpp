#include <fmt/format.h>

#include <filesystem>

#include "convoy/base/json.h"
#include "convoy/base/random.h"
#include "convoy/prepare/items.h"
#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

class WindowsCommand : public CommandTest {
 protected:
  /// 40 users take six of twenty items on each of five days, but the fourth.
  void make_windows() {
    std::string events = "user_id,item_id,timestamp\n";
    for (int day : {0, 1, 2, 4}) {
      for (int user = 0; user < 40; ++user) {
        int item = static_cast<int>(mix64(static_cast<uint64_t>(100 * day + user)) % 20);
        for (int i = 0; i < 6; ++i) {
          events += fmt::format("u{},i{},{}\n", user, item, 1700006400 + 86400 * day + 60 * i);
          item = (item * 7 + 3) % 20;
        }
      }
    }
    write_file(folder_ / "events.csv", events);
    ASSERT_EQ(run("data sessions events.csv --output days --windows day"), 0) << output_;
  }

  Json results(const std::string& folder) const { return json(folder + "/results_over_time.json"); }
};

const std::string kTrain =
    "train --d_model 8 --n_layer 1 --n_head 2 --per_device_train_batch_size 8 --max_steps 12 "
    "--learning_rate 0.02 --save_steps 5 --logging_steps 4 --threads 1 ";

TEST_F(WindowsCommand, EachIsTrainedAfterTheOneBeforeAndEvaluatedOnTheNext) {
  make_windows();
  ASSERT_EQ(run(kTrain + "--windows days --end 3 --output_dir all"), 0) << output_;
  EXPECT_NE(output_.find("average of 2 windows, each of which counts alike: loss "),
            std::string::npos)
      << output_;
  EXPECT_NE(output_.find("NDCG of popularity"), std::string::npos) << output_;
  const auto all = results("all");
  ASSERT_EQ(all.at("windows").size(), 2U);
  double sum = 0;
  for (const auto& [i, names] :
       {std::pair{0, std::pair{"0001", "0002"}}, std::pair{1, std::pair{"0002", "0003"}}}) {
    const auto& result = all.at("windows").at(static_cast<size_t>(i));
    EXPECT_EQ(result.at("trained_on"), names.first);
    EXPECT_EQ(result.at("evaluated_on"), names.second);
    sum += result.at("metrics").at("eval_loss").get<double>();
  }
  EXPECT_NEAR(all.at("average").at("eval_loss"), sum / 2, 1e-9);
  EXPECT_NE(read_file(folder_ / "all/results_over_time.svg").find("ndcg_at_10"), std::string::npos);

  // Each folder is a run; the second one began where the first one ended.
  ASSERT_EQ(run("eval all/0002 --json > again.json"), 0) << output_;
  EXPECT_NEAR(json("again.json").at("eval_loss"),
              all.at("windows").at(1).at("metrics").at("eval_loss"), 1e-5);
  ASSERT_EQ(run(kTrain + "--data.train days/0002/train.parquet --data.valid "
                         "days/0003/valid.parquet --data.schema days/schema.json "
                         "--output_dir alone"),
            0)
      << output_;
  const auto alone = json("alone/eval_results.json");
  EXPECT_LT(all.at("windows").at(1).at("metrics").at("eval_loss"), alone.at("eval_loss"));
}

TEST_F(WindowsCommand, AreReplayedFromTheWeightsThatTheyBeganWith) {
  make_windows();
  for (const std::string more : {"", "--keep_moments "}) {
    ASSERT_EQ(run(kTrain +
                  "--windows days --end 3 --logging_steps 1 --overwrite_output_dir "
                  "--output_dir all " +
                  more),
              0)
        << output_;
    for (const int step : {2, 7}) {
      ASSERT_EQ(run(fmt::format("replay all/0002 --step {} --json 2>&1", step)), 0) << output_;
      EXPECT_FALSE(says("warning")) << output_;
      const auto found = parse_json(output_, "what it printed");
      EXPECT_NEAR(found["loss"].get<double>(), found["logged_loss"].get<double>(), 1e-6) << step;
    }
  }
  fs::rename(folder_ / "all/0001", folder_ / "elsewhere");
  EXPECT_EQ(run("replay all/0002 --step 2"), 1) << output_;
  expect("began with the weights of window 0001, but");
  EXPECT_EQ(run("replay all/0002 --step 7 > /dev/null"), 0) << output_;
}

TEST_F(WindowsCommand, BeginLaterInFoldersOfAnyWidthWithATableByRows) {
  make_windows();
  for (const char* name : {"1", "2", "3"}) {
    fs::rename(folder_ / "days" / (std::string("000") + name), folder_ / "days" / name);
  }
  const auto command = kTrain +
                       "--windows days --start 2 --end 3 --sampled_softmax true "
                       "--max_n_samples 10 ";
  ASSERT_EQ(run(command + "--output_dir whole"), 0) << output_;
  ASSERT_EQ(run(command + "--row_tables true --keep_moments --nproc 2 "
                          "--per_device_train_batch_size 4 --output_dir rows"),
            0)
      << output_;
  const auto whole = results("whole").at("windows"), rows = results("rows").at("windows");
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole.at(0).at("trained_on"), "0002");
  EXPECT_EQ(whole.at(0).at("evaluated_on"), "0003");
  const auto loss = [](const Json& window) {
    return window.at("metrics").at("eval_loss").get<double>();
  };
  EXPECT_NEAR(loss(rows.at(0)) / loss(whole.at(0)), 1, 1e-5);
}

TEST_F(WindowsCommand, WeeksHaveSevenDays) {
  make_windows();
  ASSERT_EQ(run("data sessions events.csv --output weeks --windows week"), 0) << output_;
  EXPECT_TRUE(fs::exists(folder_ / "weeks/0001/train.parquet"));
  EXPECT_FALSE(fs::exists(folder_ / "weeks/0002"));
}

TEST_F(WindowsCommand, GoOnToTheSameResults) {
  make_windows();
  ASSERT_EQ(run(kTrain + "--windows days --end 3 --output_dir all"), 0) << output_;
  const auto all = results("all");
  // As if it had been stopped in the second window.
  auto cut = all;
  cut.at("windows").erase(1);
  write_file(folder_ / "all/results_over_time.json", cut.dump());
  for (const char* left : {"checkpoint-10", "checkpoint-12", "model.safetensors"}) {
    fs::remove_all(folder_ / "all/0002" / left);
  }
  ASSERT_TRUE(fs::exists(folder_ / "all/0002/checkpoint-5"));
  ASSERT_EQ(run(kTrain + "--windows days --end 3 --output_dir all --resume_from_checkpoint latest"),
            0)
      << output_;
  EXPECT_NE(output_.find("window 2 of 2"), std::string::npos) << output_;
  EXPECT_EQ(output_.find("window 1 of 2"), std::string::npos) << "it was done with";
  for (const char* metric : {"eval_loss", "eval_ndcg_at_10"}) {
    EXPECT_EQ(results("all").at("windows").at(1).at("metrics").at(metric),
              all.at("windows").at(1).at("metrics").at(metric));
  }
  EXPECT_EQ(run(kTrain + "--windows days --end 3 --output_dir all"), 2);
  EXPECT_NE(output_.find("already holds a run"), std::string::npos) << output_;
}

TEST_F(WindowsCommand, ResumeByTheWordsOfPython) {
  make_windows();
  const auto train = kTrain + "--windows days --end 3 --output_dir all --resume_from_checkpoint ";
  ASSERT_EQ(run(train + "False"), 0) << output_;
  const auto all = results("all");
  ASSERT_EQ(run(train + "True"), 0) << output_;
  EXPECT_EQ(results("all"), all);
  EXPECT_EQ(run(train + "False"), 2) << output_;
  EXPECT_NE(output_.find("already holds a run"), std::string::npos) << output_;
}

TEST_F(WindowsCommand, RunKilledInItsLastEvaluationIsEvaluatedAgain) {
  make_windows();
  const auto command = kTrain + "--windows days --end 3 --eval_strategy no --output_dir ";
  ASSERT_EQ(run(command + "all"), 0) << output_;
  EXPECT_NE(shell("CONVOY_FAULT=sigkill@0:evaluation:12 $convoy " + command + "cut"), 0);
  ASSERT_TRUE(fs::exists(folder_ / "cut/0001/model.safetensors")) << output_;
  ASSERT_FALSE(fs::exists(folder_ / "cut/results_over_time.json"));
  ASSERT_EQ(run(command + "cut --resume_from_checkpoint latest"), 0) << output_;
  for (size_t window = 0; window < 2; ++window) {
    for (const char* metric : {"eval_loss", "eval_ndcg_at_10"}) {
      EXPECT_EQ(results("cut").at("windows").at(window).at("metrics").at(metric),
                results("all").at("windows").at(window).at("metrics").at(metric));
    }
  }
  EXPECT_TRUE(fs::exists(folder_ / "cut/0001/eval_results.json"));
  // Results of an earlier step's evaluation do not pass for the end's.
  const auto earlier =
      kTrain + "--windows days --end 3 --eval_strategy steps --eval_steps 5 --output_dir ";
  EXPECT_NE(shell("CONVOY_FAULT=sigkill@0:evaluation:12 $convoy " + earlier + "late"), 0);
  ASSERT_EQ(run(earlier + "late --resume_from_checkpoint latest"), 0) << output_;
  EXPECT_EQ(results("late").at("average").at("eval_loss"),
            results("all").at("average").at("eval_loss"));
  // And in which the evaluation of its last step was the end's.
  const auto steps =
      kTrain + "--windows days --end 3 --eval_strategy steps --eval_steps 6 --output_dir ";
  ASSERT_EQ(run(steps + "steps"), 0) << output_;
  EXPECT_EQ(results("steps").at("average").at("eval_loss"),
            results("all").at("average").at("eval_loss"));
}

TEST_F(WindowsCommand, GoOnOnlyWhereTheyBeganAlike) {
  make_windows();
  const auto command = kTrain + "--windows days --output_dir all ";
  ASSERT_EQ(run(command + "--start 2 --end 3"), 0) << output_;
  EXPECT_EQ(run(command + "--end 3"), 2);
  expect("all/0002 already holds a run");
  EXPECT_FALSE(fs::exists(folder_ / "all/0001")) << "it says so first";
  EXPECT_EQ(run(command + "--end 3 --resume_from_checkpoint latest"), 2);
  expect("all/0002 began with weights of its own, here it begins with those of window 0001");
  EXPECT_EQ(run(command + "--start 2 --end 3 --seed 7 --resume_from_checkpoint latest"), 2);
  expect("all/0002 was trained with train.seed = 42, here 7");
  ASSERT_EQ(run(command + "--end 3 --overwrite_output_dir"), 0) << output_;
  EXPECT_EQ(results("all").at("windows").size(), 2U);
}

TEST_F(WindowsCommand, RestoreTheLastModelAndSayWhichAreGone) {
  make_windows();
  const auto command = kTrain + "--windows days --output_dir all --resume_from_checkpoint ";
  EXPECT_EQ(run(command + "latest"), 2);
  expect("there is no window to go on with in all; try without --resume_from_checkpoint");
  ASSERT_EQ(run(command + "false"), 0) << output_;
  const auto all = results("all");
  const auto count = all.at("windows").size();
  const auto last = folder_ / "all" / all.at("windows").back().at("trained_on").get<std::string>();
  const auto model = read_file(last / "model.safetensors");
  fs::remove(last / "model.safetensors");
  fs::remove_all(folder_ / "all/0001");
  ASSERT_EQ(run(command + "latest"), 0) << output_;
  expect("all/0001 holds no model any more; its results stand");
  EXPECT_EQ(read_file(last / "model.safetensors"), model);
  EXPECT_EQ(results("all").at("windows").size(), count);
  ASSERT_EQ(run(command + "latest --max_steps 20"), 0) << output_;
  expect("train.max_steps = 20 instead of 12 for later ones alone");
  expect("nothing is left to train: all ");
}

TEST_F(WindowsCommand, GoOnOnlyFromTheWeightsThatTheyBeganWith) {
  make_windows();
  const auto command = kTrain + "--windows days --output_dir all ";
  ASSERT_EQ(run(command), 0) << output_;
  // The second window is trained anew, in another way.
  fs::remove_all(folder_ / "all/0001");
  fs::remove(folder_ / "all/results_over_time.json");
  EXPECT_EQ(run(command + "--learning_rate 0.05 --resume_from_checkpoint latest"), 2);
  expect(
      "all/0002 began with weights that all/0001 does not hold any more; try to bring them back");
  // With the same options they are the same weights.
  fs::remove_all(folder_ / "all/0001");
  EXPECT_EQ(run(command + "--resume_from_checkpoint latest"), 0) << output_;
}

TEST_F(WindowsCommand, PassOverDaysWithoutSessions) {
  make_windows();
  ASSERT_EQ(run(kTrain + "--windows days --start 2 --output_dir all"), 0) << output_;
  EXPECT_EQ(results("all").at("windows").at(1).at("trained_on"), "0003");
  EXPECT_EQ(results("all").at("windows").at(1).at("evaluated_on"), "0005");
}

// A log that is cut within a day leaves a last window of single events, or of one row.
TEST_F(WindowsCommand, EndWithTheLastOneThatHasRows) {
  make_windows();
  const auto events = read_file(folder_ / "events.csv");
  const auto day_of = [&](const std::string& more) {
    write_file(folder_ / "events.csv", events + more);
    ASSERT_EQ(run("data sessions events.csv --output cut --windows day"), 0) << output_;
    ASSERT_TRUE(fs::exists(folder_ / "cut/0006"));
    ASSERT_EQ(run(kTrain + "--windows cut --start 3 --output_dir out --overwrite_output_dir"), 0)
        << output_;
  };
  day_of("u1,i1,1700438410\nu2,i2,1700438420\n");
  expect("train on 0003, evaluate on 0005");
  EXPECT_EQ(results("out").at("windows").size(), 1U);
  expect("0003 to 0005, 40 rows: ");
  day_of("u1,i1,1700438410\nu1,i2,1700438420\nu1,i3,1700438430\n");
  expect("0005 to 0006, 1 row: ");
  const auto all = results("out");
  const std::string error = "eval_ndcg_at_10_stderr";
  EXPECT_TRUE(all.at("windows")[0].at("metrics").contains(error));
  EXPECT_FALSE(all.at("windows")[1].at("metrics").contains(error)) << "of one row";
  EXPECT_FALSE(all.at("average").contains(error));
  EXPECT_TRUE(all.at("average").contains("eval_ndcg_at_10"));
}

TEST_F(WindowsCommand, LaterDataReplaceThoseOfTheRun) {
  make_windows();
  ASSERT_EQ(run(kTrain + "--windows days --end 2 --output_dir first"), 0) << output_;
  EXPECT_EQ(run("eval first"), 2);
  expect("each of its windows is a run; try first/0001");
  std::string later;
  for (int i = 0; i < 40; ++i)
    later += fmt::format("v{0},fresh{1},{1}\nv{0},fresh{2},{2}\n", i, i % 5, i % 5 + 5);
  write_file(folder_ / "later.csv", "user_id,item_id,timestamp\n" + later + later);
  ASSERT_EQ(run("data sessions later.csv --output later --ids-from days"), 0) << output_;
  const std::string go_on = "train first/0001/run.toml --model_name_or_path first/0001 ";
  ASSERT_EQ(run(go_on + "--data.path later --output_dir second"), 0) << output_;
  const auto items = [&](const std::string& run) {
    return prepare::ItemNames::load(folder_ / run / "items.parquet").size();
  };
  EXPECT_EQ(items("first/0001"), 20);
  EXPECT_EQ(items("second"), 30);
  // And so do other windows.
  ASSERT_EQ(run(go_on + "--windows days --start 2 --end 3 --output_dir third"), 0) << output_;
  EXPECT_EQ(results("third").at("windows").at(0).at("trained_on"), "0002");
}

TEST_F(WindowsCommand, KeepMomentsWhereThatIsAskedFor) {
  make_windows();
  const auto command = kTrain + "--windows days --end 3 ";
  ASSERT_EQ(run(command + "--output_dir none"), 0) << output_;
  ASSERT_EQ(run(command + "--keep_moments --output_dir all"), 0) << output_;
  const auto metric = [&](const std::string& folder, size_t window) {
    return results(folder).at("windows").at(window).at("metrics").at("eval_loss").get<double>();
  };
  EXPECT_EQ(metric("all", 0), metric("none", 0));
  EXPECT_NE(metric("all", 1), metric("none", 1));
  EXPECT_EQ(json("all/0002/trainer_state.json").at("earlier_updates"), 12);
  ASSERT_EQ(run("eval all/0002"), 0) << output_;

  // Stopped in the second window: it goes on with what it kept.
  const double whole = metric("all", 1);
  auto cut = results("all");
  cut.at("windows").erase(1);
  write_file(folder_ / "all/results_over_time.json", cut.dump());
  for (const char* left : {"checkpoint-10", "checkpoint-12", "model.safetensors"}) {
    fs::remove_all(folder_ / "all/0002" / left);
  }
  const auto again = command + "--keep_moments --output_dir all --resume_from_checkpoint latest";
  ASSERT_EQ(run(again), 0) << output_;
  EXPECT_EQ(metric("all", 1), whole);
  write_file(folder_ / "all/results_over_time.json", cut.dump());
  fs::remove_all(folder_ / "all/0001/checkpoint-12");
  EXPECT_EQ(run(again), 1);
  EXPECT_NE(output_.find("has no checkpoint of its last step"), std::string::npos) << output_;
}

TEST_F(WindowsCommand, SayWhatDoesNotGo) {
  make_windows();
  const auto expect_refused = [&](const std::string& more, const std::string& text, int code = 2) {
    EXPECT_EQ(run(kTrain + "--output_dir out " + more), code);
    EXPECT_NE(output_.find(text), std::string::npos) << output_;
  };
  expect_refused("--windows days --end 4",
                 "has no rows; it holds 1 to 5: try other --start and --end", 1);
  expect_refused("--windows days --start 3 --end 3", "expected --end above --start");
  expect_refused("--windows days --end 3 --keep_moments --save_strategy no",
                 "--save_strategy epoch");
  expect_refused("--data.path days --keep_moments", "data.windows");
  expect_refused("--windows nowhere", "is no folder");
  expect_refused("--windows days --end 2 --data.path days", "data.path has no effect");
  expect_refused("--data.path days --start 2", "data.windows");
  expect_refused("--windows days --end 2 --resume_from_checkpoint out/0001/checkpoint-5",
                 "--resume_from_checkpoint latest");
  EXPECT_FALSE(fs::exists(folder_ / "out/0001"));
  EXPECT_EQ(run(kTrain + "--windows days --end 2"), 2);
  EXPECT_NE(output_.find("--output_dir"), std::string::npos) << output_;
}

}  // namespace
}  // namespace convoy
