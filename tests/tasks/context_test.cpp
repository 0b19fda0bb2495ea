#include <fmt/format.h>

#include "convoy/prepare/popularity.h"
#include "convoy/tasks/session/baselines/interactions.h"
#include "tests/cli/command_testing.h"
#include "tests/tasks/event_log_testing.h"

namespace convoy {
namespace {

/// Rows that begin with earlier events of the person, which are read and not trained on.
class RowsWithContext : public CommandTest {
 protected:
  /// Events of one day: users walk round 20 items, a step every hour.
  std::string day(int number, int events) const {
    std::vector<LogEvent> log;
    for (int user = 0; user < 12; ++user) {
      for (int i = 0; i < events + user % 3; ++i) {
        const int item = (user * 3 + number * events + i * (1 + user % 2)) % 20;
        log.push_back({fmt::format("u{}", user), fmt::format("i{}", item),
                       number * LogTruth::kDay + i * 3600});
      }
    }
    return csv_of(log);
  }

  int train(const std::string& more) {
    return run(
        "train --d_model 8 --n_layer 2 --n_head 2 --max_steps 5 --learning_rate 1e-2 "
        "--per_device_train_batch_size 4 --threads 1 --logging_steps 1 --save_strategy no "
        "--overwrite_output_dir " +
        more);
  }
};

TEST_F(RowsWithContext, TrainTheirOwnEventsAlone) {
  write_file(folder_ / "e.csv", day(0, 7));
  // Each event is a session of its own: a row of one event behind its context.
  ASSERT_EQ(run("data sessions e.csv --output d --session gap --gap 1800 --validation none "
                "--context 4 --max-length 2"),
            0)
      << output_;
  expect(
      "context    84 of 84 rows begin with 264 earlier events of the person, which train nothing");
  for (const char* body : {"gpt2", "sasrec"}) {
    const auto same = fmt::format("--data.path d --body {} --output_dir ", body);
    ASSERT_EQ(train(same + "a"), 0) << output_;
    expect("items that are read are context of the rows");
    ASSERT_EQ(train(same + "b --train_on_last_item_seq_only true"), 0) << output_;
    EXPECT_TRUE(model_of("a") == model_of("b")) << body;
  }
  // Longer rows than the model reads lose context first.
  ASSERT_EQ(train("--data.path d --max_length 3 --output_dir a"), 0) << output_;
  ASSERT_EQ(train("--data.path d --max_length 3 --output_dir b --train_on_last_item_seq_only true"),
            0)
      << output_;
  EXPECT_TRUE(model_of("a") == model_of("b"));
  // Context counts once, as what it was, for the most popular items.
  EXPECT_EQ(json("a/item_counts.json").at("counts").size(), 21U);
  int64_t events = 0;
  const auto kept = json("a/item_counts.json");
  for (const auto& count : kept.at("counts")) events += count.get<int64_t>();
  EXPECT_EQ(events, 84);
}

TEST_F(RowsWithContext, GiveEveryLayoutTheSameLosses) {
  write_file(folder_ / "e0.csv", day(0, 6));
  write_file(folder_ / "e1.csv", day(1, 4));
  ASSERT_EQ(run("data sessions e0.csv --output d0"), 0) << output_;
  ASSERT_EQ(run("data sessions e1.csv --output d1 --ids-from d0 --context 5"), 0) << output_;
  expect("12 of 12 rows begin with 60 earlier events");
  const auto losses_of = [&](const std::string& options) {
    EXPECT_EQ(train("--data.path d1 --output_dir r " + options), 0) << options << output_;
    return losses("r");
  };
  for (const char* model : {"--body gpt2", "--body bert", "--body electra --masking rtd",
                            "--body xlnet --masking plm"}) {
    const auto one = losses_of(model);
    const bool masks_rows = std::string_view(model).find("masking") != std::string_view::npos;
    for (const char* layout : {"--nproc 2 --per_device_train_batch_size 2 --zero 3",
                               "--pipeline_parallel_size 2 --per_device_train_batch_size 2 "
                               "--gradient_accumulation_steps 2",
                               "--nproc 2 --tensor_parallel_size 2"}) {
      const bool tensor = std::string_view(layout).find("tensor") != std::string_view::npos;
      if (tensor && masks_rows) continue;  // not supported
      expect_near(one, losses_of(fmt::format("{} {}", model, layout)));
    }
    // What the rows would train without it.
    ASSERT_EQ(run("data sessions e1.csv --output plain --ids-from d0"), 0) << output_;
    EXPECT_EQ(train(fmt::format("--data.path plain --output_dir p {}", model)), 0) << output_;
    EXPECT_NE(losses("p"), one) << model;
  }
}

TEST_F(RowsWithContext, CountAsTheirOwnEventsInFactsOfAnEvaluation) {
  write_file(folder_ / "e.csv", day(0, 8));
  // Sessions of one event each, of which the first of each person has no context, so no row.
  ASSERT_EQ(run("data sessions e.csv --output d --session gap --gap 3000 --validation none "
                "--context 6 --max-length 2"),
            0)
      << output_;
  int64_t events = 0;
  for (int user = 0; user < 12; ++user) events += 7 + user % 3;
  const data::ParquetFiles rows((folder_ / "d/train.parquet").string());
  const auto own = tasks::read_interactions(rows, "item_id-list", "user_id", 20);
  EXPECT_EQ(own.num_rows(), 12);
  EXPECT_EQ(std::ssize(own.items), events);  // nobody has an item twice
  int64_t counted = 0;
  for (const int64_t count : prepare::count_items(rows, "item_id-list", 20)) counted += count;
  EXPECT_EQ(counted, events);
  ASSERT_EQ(train("--data.path d --output_dir r --eval_strategy no"), 0) << output_;
  ASSERT_EQ(run("eval r --data d --segments --metrics all --baselines itemknn,ease,popularity "
                "--json > eval.json"),
            0)
      << output_;
  const auto told = json("eval.json");
  for (const auto& [name, value] : told.at("eval_segments").items()) {
    EXPECT_EQ(name.find("session_"), std::string::npos) << name << " of sessions of one event";
  }
  EXPECT_TRUE(told.contains("eval_ease_baseline_ndcg_at_10"));
}

TEST_F(RowsWithContext, AreRefusedWhereHistoriesLackWhatTheyNeed) {
  write_file(folder_ / "e0.csv", day(0, 6));
  write_file(folder_ / "e1.csv", day(1, 4));
  ASSERT_EQ(run("data sessions e0.csv --output d0 --features price"), 0) << output_;
  EXPECT_EQ(run("data sessions e1.csv --output d1 --ids-from d0 --context 5 --features price"), 2);
  expect(
      "--context reads the histories of d0, which have items alone, without what the feature "
      "price asks for");
  EXPECT_EQ(run("data sessions e1.csv --output d1 --ids-from d0 --context 5 --keep-time"), 2);
  expect("without what --keep-time asks for");
  EXPECT_EQ(run("data sessions e1.csv --output d1 --context -1"), 2);
  // Within one log they are there.
  ASSERT_EQ(run("data sessions e0.csv e1.csv --output d --windows day --context 3 --features price "
                "--keep-time"),
            0)
      << output_;
  ASSERT_EQ(train("--data.path d/0002 --data.schema d/schema.json --body hstu --output_dir r"), 0)
      << output_;
}

}  // namespace
}  // namespace convoy
