#include <set>
#include <sstream>

#include "convoy/base/text.h"
#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

namespace convoy {
namespace {

class TrainCommand : public CommandTest {};

TEST_F(TrainCommand, TrainThenEvaluateThenPredict) {
  make_sessions(200);
  fs::remove(folder_ / "syn/items.parquet");  // ids stand for themselves
  ASSERT_EQ(run("train" + kTiny +
                "--num_train_epochs 6 --learning_rate 0.02 --save_steps 40 "
                "--output_dir out"),
            0)
      << output_;
  expect("examples       200");
  expect("batch          8 per device x 1 device x 1 accumulation = 8 in total");
  expect("steps          150 (25 per epoch)");
  expect("evaluated: loss");
  for (const char* file : {"checkpoint-40/model.safetensors", "checkpoint-40/optimizer.safetensors",
                           "checkpoint-150/trainer_state.json", "config.json", "model.safetensors",
                           "all_results.json", "log.jsonl", "schema.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "out" / file)) << file;
  }
  const auto results = json("out/all_results.json");
  EXPECT_EQ(results["epoch"], 6);
  EXPECT_LT(json("out/trainer_state.json")["log_history"].back()["loss"], 3.0);

  // The same numbers from the files, whatever the batch size.
  ASSERT_EQ(run("eval out --json --per_device_eval_batch_size 3"), 0) << output_;
  // Of a program with an optimizer and a schedule of its own.
  ASSERT_EQ(shell("mkdir own && cp -r out/. own && sed -i 's/^optim = .*/optim = \"momentum\"/; "
                  "s/^pipeline_schedule = .*/pipeline_schedule = \"one_by_one\"/' own/run.toml && "
                  "grep momentum own/run.toml"),
            0)
      << output_;
  EXPECT_EQ(run("eval own --json"), 0) << output_;
  ASSERT_EQ(run("eval out --json --per_device_eval_batch_size 3"), 0) << output_;
  const auto metrics = parse_json(output_, "output");
  for (const char* key : {"eval_recall_at_10", "eval_ndcg_at_10"}) {
    EXPECT_DOUBLE_EQ(metrics[key], results[key]) << key;
  }
  EXPECT_NEAR(metrics["eval_loss"], results["eval_loss"].get<double>(), 1e-6);

  // What predict recommends to sessions without their last item is what eval counts as hits.
  const auto all = data::testing::read_int_lists(folder_ / "syn/valid.parquet", "item_id-list");
  auto cut = all;
  for (auto& session : cut) session.pop_back();
  data::testing::write_parquet(folder_ / "cut.parquet",
                               {{"item_id-list", data::testing::int_lists(cut)}});
  ASSERT_EQ(run("predict out --data cut.parquet --top-k 10 --output top.jsonl"), 0) << output_;
  std::vector<std::set<int64_t>> top(all.size());
  double last = 0;
  int64_t hits = 0;
  std::istringstream lines(read_file(folder_ / "top.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto found = parse_json(line, "top.jsonl");
    const auto row = found["row"].get<size_t>();
    const int64_t id = std::stoll(found["item_id"].get<std::string>());
    EXPECT_GE(id, 1) << "padding is never recommended";
    EXPECT_TRUE(top.at(row).insert(id).second) << id << " twice for row " << row;
    EXPECT_EQ(top[row].size(), found["rank"]);
    if (found["rank"] > 1) {
      EXPECT_LE(found["score"], last);
    }
    last = found["score"];
    hits += id == all[row].back();
  }
  for (const auto& items : top) EXPECT_EQ(items.size(), 10);
  EXPECT_DOUBLE_EQ(static_cast<double>(hits) / static_cast<double>(all.size()),
                   results["eval_recall_at_10"]);

  ASSERT_EQ(run("predict out --top-k 3 --rows 2"), 0) << output_;
  ASSERT_EQ(run("predict out --top-k 3 --rows 2 --output top.parquet"), 0) << output_;
  EXPECT_TRUE(fs::exists(folder_ / "top.parquet"));
}

TEST_F(TrainCommand, PredictionsCarryRawIds) {
  make_sessions();
  ASSERT_EQ(run("train" + kTiny + "--max_steps 3 --output_dir out"), 0) << output_;
  ASSERT_EQ(run("predict out --top-k 3 --rows 2"), 0) << output_;
  expect("item-");
}

TEST_F(TrainCommand, AFolderMadeForTransformers4RecTrainsAsItIs) {
  make_sessions();
  fs::remove(folder_ / "syn/items.parquet");
  ASSERT_EQ(run("train" + kTiny + "--max_steps 3 --output_dir out"), 0) << output_;
  ASSERT_EQ(run("predict out --top-k 2 --rows 1"), 0) << output_;
}

TEST_F(TrainCommand, RowGroupsThatDoNotFitAreRepartitionedWithAdvice) {
  make_sessions(61);
  ASSERT_EQ(run("data repartition syn/train.parquet --row-group-size 25"), 0) << output_;
  ASSERT_EQ(run("train" + kTiny + "--max_steps 3 --data.partition row_groups --nproc 2"), 0)
      << output_;
  expect("convoy data repartition syn/train.parquet --for-ranks 2");
}

TEST_F(TrainCommand, PrintedConfigReadsBackToItself) {
  ASSERT_EQ(
      run("train --print-config --learning_rate 0.25 --train.bf16 --data.features item_id-list,a"),
      0)
      << output_;
  expect("learning_rate = 0.25");
  expect("bf16 = true");
  write_file(folder_ / "run.toml", output_);
  const auto first = output_;
  ASSERT_EQ(run("train run.toml --print-config"), 0) << output_;
  EXPECT_EQ(output_, first);
}

TEST_F(TrainCommand, AnInterruptedRunGoesOnToTheSameModel) {
  make_sessions();
  const auto common = "train" + kTiny + "--num_train_epochs 2 --save_steps 5 ";
  ASSERT_EQ(run(common + "--output_dir whole"), 0) << output_;
  ASSERT_EQ(run(common + "--output_dir parts"), 0) << output_;
  for (const char* gone : {"checkpoint-10", "checkpoint-15", "checkpoint-16"}) {
    fs::remove_all(folder_ / "parts" / gone);
  }
  ASSERT_EQ(run(common + "--output_dir parts --resume_from_checkpoint latest"), 0) << output_;
  expect("resumed        from parts/checkpoint-5 at step 5");
  EXPECT_EQ(read_file(folder_ / "parts/model.safetensors"),
            read_file(folder_ / "whole/model.safetensors"));
}

TEST_F(TrainCommand, AFinishedRunIsSavedElsewhere) {
  make_sessions();
  ASSERT_EQ(run("train" + kTiny + "--max_steps 4 --output_dir out"), 0) << output_;
  ASSERT_EQ(run("train" + kTiny +
                "--max_steps 4 --output_dir new --resume_from_checkpoint out/checkpoint-4"),
            0)
      << output_;
  expect("nothing is left to train: out/checkpoint-4 is at step 4 of 4");
  EXPECT_EQ(read_file(folder_ / "new/model.safetensors"),
            read_file(folder_ / "out/model.safetensors"));
  EXPECT_FALSE(json("new/train_results.json").contains("train_runtime")) << "of this start alone";
}

TEST_F(TrainCommand, AFinishedRunIsLeftAsItIs) {
  make_sessions();
  ASSERT_EQ(run("train" + kTiny + "--max_steps 4 --output_dir out"), 0) << output_;
  const auto before = read_file(folder_ / "out/train_results.json");
  ASSERT_EQ(run("train" + kTiny + "--max_steps 4 --output_dir out --resume_from_checkpoint latest"),
            0);
  expect("nothing is left to train: out/checkpoint-4 is at step 4 of 4");
  EXPECT_EQ(read_file(folder_ / "out/train_results.json"), before);
  EXPECT_EQ(run("train" + kTiny + "--max_steps 6 --output_dir new --resume_from_checkpoint out"),
            2);
  expect("resume_from_checkpoint = out is a run's folder; try its checkpoint out/checkpoint-4");
  // The run's own configuration starts a new run, from any folder.
  ASSERT_EQ(shell("cd / && $convoy train " + (folder_ / "out/run.toml").string() +
                  " --max_steps 2 --output_dir " + (folder_ / "again").string()),
            0)
      << output_;
  expect("step 2/2");
  ASSERT_EQ(shell("cd / && $convoy eval " + (folder_ / "out").string()), 0) << output_;
}

TEST_F(TrainCommand, RowsThatEndInPaddingAreEvaluatedUpToTheirLastItem) {
  make_sessions();
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2 --output_dir out"), 0) << output_;
  auto recall = [&](const std::vector<std::vector<int64_t>>& rows) {
    data::testing::write_parquet(folder_ / "rows.parquet",
                                 {{"item_id-list", data::testing::int_lists(rows)}});
    EXPECT_EQ(run("eval out --data rows.parquet --json 2>/dev/null"), 0) << output_;
    return parse_json(output_, "output")["eval_loss"].get<double>();
  };
  EXPECT_DOUBLE_EQ(recall({{1, 2, 0, 0}, {0, 0}, {4, 5, 6}}), recall({{1, 2}, {4, 5, 6}}));
}

TEST_F(TrainCommand, EqualScoresAreNoHits) {
  make_sessions(200);
  ASSERT_EQ(run("train" + kTiny +
                "--max_steps 1 --learning_rate 0 --initializer_range 0 "
                "--output_dir out --top_ks [1,30]"),
            0)
      << output_;
  ASSERT_EQ(run("eval out --json"), 0) << output_;
  const auto metrics = parse_json(output_, "output");
  EXPECT_LT(metrics["eval_recall_at_1"], 0.5);
  EXPECT_EQ(metrics["eval_recall_at_30"], 1);
}

TEST_F(TrainCommand, EvaluationAndSavingByEpochAndByRatio) {
  make_sessions();
  ASSERT_EQ(run("train" + kTiny +
                "--num_train_epochs 2 --eval_strategy epoch --save_strategy epoch "
                "--save_total_limit 1 --output_dir a"),
            0)
      << output_;
  expect("evaluated after step 8:");
  expect("evaluated after step 16:");
  EXPECT_FALSE(fs::exists(folder_ / "a/checkpoint-8"));
  EXPECT_TRUE(fs::exists(folder_ / "a/checkpoint-16"));
  ASSERT_EQ(run("train" + kTiny +
                "--num_train_epochs 2 --save_steps 0.25 --logging_steps 0.5 "
                "--output_dir b"),
            0)
      << output_;
  for (const char* step : {"4", "8", "12", "16"}) {
    EXPECT_TRUE(fs::exists(folder_ / "b" / (std::string("checkpoint-") + step))) << step;
  }
  EXPECT_EQ(output_.find("step  9/16"), std::string::npos);
}

TEST_F(TrainCommand, BenchStepSpeaksJson) {
  make_sessions();
  write_file(folder_ / "run.toml", "");
  ASSERT_EQ(run("bench step run.toml" + kTiny + "--steps 5 --json"), 0) << output_;
  const auto report = parse_json(output_, "output");
  for (const char* key :
       {"step_ms_median", "samples_per_second", "tokens_per_second", "peak_memory_bytes"}) {
    EXPECT_GT(report[key], 0) << key;
  }
  EXPECT_GE(report["data_wait_percent"], 0);
  EXPECT_LT(report["comm_wait_percent"], 1);
  // Options about evaluations are of the training alone.
  ASSERT_EQ(run("bench step run.toml --data.path syn --d_model 8 --n_layer 1 --n_head 2 --threads "
                "1 --steps 2 --json --load_best_model_at_end --metric_for_best_model ndcg_at_10 "
                "--early_stopping_patience 2 --output_dir out"),
            0)
      << output_;
}

TEST_F(TrainCommand, BenchLoaderReadsAllRows) {
  make_sessions(200);
  write_file(folder_ / "run.toml", "");
  ASSERT_EQ(run("bench loader run.toml --data.path syn --epochs 2 --json"), 0) << output_;
  const auto result = parse_json(output_, "output");
  EXPECT_EQ(result["rows"], 400);
  EXPECT_GT(result["rows_per_second"].get<double>(), 1000);
  EXPECT_EQ(run("bench loader run.toml --data.path syn --epochs 0"), 2);
}

TEST_F(TrainCommand, BenchStrategiesComparesThree) {
  make_sessions();
  write_file(folder_ / "run.toml", "");
  ASSERT_EQ(run("bench strategies run.toml" + kTiny +
                "--max_steps 6 --strategies single,dp,ddp --ranks 2 --output table"),
            0)
      << output_;
  expect("| single");
  const auto rows = json("table/strategies.json");
  ASSERT_EQ(rows.size(), 3);
  for (const auto& row : rows) {
    const double loss = row["loss"];
    EXPECT_NEAR(loss, rows[0]["loss"].get<double>(), 1e-4 * loss) << row["strategy"];
    if (row["strategy"] != "single") {
      EXPECT_EQ(loss, rows[1]["loss"]);  // two halves, bit for bit
    }
    EXPECT_NEAR(row["metrics"]["ndcg@10"], rows[0]["metrics"]["ndcg@10"].get<double>(), 1e-2);
    EXPECT_GT(row["peak_memory_bytes_per_rank"], 1 << 20);
    EXPECT_EQ(row["ranks"], row["strategy"] == "single" ? 1 : 2);
    EXPECT_EQ(row["collectives_per_step"] > 0, row["strategy"] != "single") << row;
  }
  EXPECT_EQ(read_file(folder_ / "table/strategies.svg").substr(0, 4), "<svg");
  EXPECT_TRUE(fs::exists(folder_ / "table/strategies.md"));
}

TEST_F(TrainCommand, BenchStrategiesComparesLearningRates) {
  make_sessions();
  write_file(folder_ / "run.toml", "");
  const auto command = "bench strategies run.toml" + kTiny + "--max_steps 6 --strategies single ";
  ASSERT_EQ(run(command + "--learning_rates 5e-4,1e-2 --output table"), 0) << output_;
  expect("learning rate");
  const auto rows = json("table/strategies.json");
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0]["learning_rate"], 5e-4);
  EXPECT_EQ(rows[1]["learning_rate"], 1e-2);
  EXPECT_GT(rows[0]["loss"], rows[1]["loss"]);
  for (const auto& row : rows) EXPECT_GT(row["eval_seconds"], 0);
  EXPECT_EQ(json("table/single-1-lr-1e-2/all_results.json")["eval_runtime"],
            rows[1]["eval_seconds"]);
  EXPECT_EQ(run(command + "--learning_rates fast"), 2);
  expect("expected numbers above 0");
  EXPECT_EQ(run(command + "--learning_rates 1e-3 --per-device"), 2);
  expect("--learning_rates without it");
}

}  // namespace
}  // namespace convoy
