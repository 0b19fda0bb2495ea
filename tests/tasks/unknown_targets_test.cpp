#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convoy/data/parquet_files.h"
#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

/// Predictions of whole sessions whose last item the model does not know.
class UnknownTargets : public CommandTest {
 protected:
  /// Users walk round ten items; the last event of each is an item of nobody else, which only the
  /// evaluation has.
  void make(const std::string& folder, int first_user, const std::string& more = "") {
    std::string events = "user_id,item_id,timestamp,spent\n";
    for (int user = first_user; user < first_user + 20; ++user) {
      for (int i = 0; i < 4 + user % 3; ++i) {
        events += fmt::format("{},i{},{},{}\n", user, (user + i) % 10, i, user % 7);
      }
      events += fmt::format("{},rare{},99,{}\n", user, user, user % 7);
    }
    write_file(folder_ / (folder + ".csv"), events);
    ASSERT_EQ(run(fmt::format("data sessions {0}.csv --features spent:first --output {0} {1}",
                              folder, more)),
              0)
        << output_;
  }

  void train(const std::string& model) {
    ASSERT_EQ(run("train --data.path d --d_model 8 --n_layer 2 --n_head 2 --dropout 0 "
                  "--per_device_train_batch_size 8 --max_steps 4 --learning_rate 0.02 --threads 1 "
                  "--initializer_range 1 --embedding_initializer_range 1 "
                  "--prediction_tasks next-item,regression:spent --overwrite_output_dir "
                  "--output_dir out " +
                  model),
              0)
        << model << output_;
  }

  /// Mean squared error of what predict writes, against the data.
  double predicted_error(const std::string& data) {
    EXPECT_EQ(run("predict out --data " + data + " --top-k 1 --output told.csv"), 0) << output_;
    const auto rows =
        data::ParquetFiles((folder_ / data / "valid.parquet").string()).read(0, {{"spent"}, {}});
    const auto& wanted = rows.columns.at("spent").floats;
    double sum = 0, count = 0;
    for (const auto& line : split(read_file(folder_ / "told.csv"), '\n')) {
      const auto cells = split(line, ',');
      if (line.empty() || cells.front() == "row") continue;
      const auto off = std::stod(cells.back()) - wanted.at(std::stoul(cells.front()));
      sum += off * off;
      ++count;
    }
    EXPECT_EQ(count, 20);
    return sum / count;
  }

  double evaluated_error(const std::string& data) {
    EXPECT_EQ(run("eval out --data " + data + " --json > eval.json"), 0) << output_;
    return json("eval.json").at("eval_spent_mse").get<double>();
  }
};

TEST_F(UnknownTargets, AreReadByNoSummary) {
  make("d", 0);
  make("later", 100, "--ids-from d");
  for (const std::string model : {"--body gpt2", "--body xlnet --masking plm --summary_type cls"}) {
    train(model);
    for (const char* data : {"d", "later"}) {  // ids that training never saw, and new ones
      const auto expected = predicted_error(data);
      EXPECT_NEAR(evaluated_error(data) / expected, 1, 1e-4) << model << " of " << data;
    }
  }
}

TEST_F(UnknownTargets, DoNotDependOnLayouts) {
  make("d", 0);
  make("later", 100, "--ids-from d");
  train("--body gpt2 --summary_type mean");
  const auto one = evaluated_error("later");
  for (const std::string layout :
       {"--nproc 2 --pipeline_parallel_size 2", "--per_device_eval_batch_size 3"}) {
    EXPECT_NEAR(evaluated_error("later " + layout) / one, 1, 1e-5) << layout;
  }
}

TEST_F(UnknownTargets, RowsWithoutAKnownInputAreTold) {
  make("d", 0);
  train("--body gpt2");
  std::string events = "user_id,item_id,timestamp,spent\n";
  for (int user = 0; user < 5; ++user) {
    for (int i = 0; i < 3; ++i) events += fmt::format("{},new{},{},1\n", user, user * 3 + i, i);
  }
  write_file(folder_ / "new.csv", events);
  ASSERT_EQ(run("data sessions new.csv --features spent:first --output new --ids-from d"), 0);
  ASSERT_EQ(run("eval out --data new"), 0) << output_;
  expect(
      "5 rows without an item before the target that the model knows: misses, which no metric of "
      "spent counts");
  EXPECT_FALSE(says("spent_mse 0")) << output_;
  expect("no row counts for the metrics of spent");
  ASSERT_EQ(run("eval out --data new --json > eval.json"), 0) << output_;
  EXPECT_TRUE(json("eval.json").at("eval_spent_mse").is_null());
}

}  // namespace
}  // namespace convoy
