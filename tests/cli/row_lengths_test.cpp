#include <fmt/format.h>

#include "tests/cli/classification_testing.h"

// Rows of different lengths: memory is that of the longest micro-batch, wherever in the data it is,
// and time that of a usual one.
namespace convoy {
namespace {

class RowLengths : public ClassificationCommand {
 protected:
  /// Texts of some words, the one with number `long_row` of 250.
  static std::string texts(int long_row, int words = 12) {
    std::string out = "opinion,verdict\n";
    for (int row = 0; row < 400; ++row) {
      const int length = row == long_row ? 250 : words - row % 4;
      for (int i = 0; i < length; ++i) out += "w" + std::to_string((row + i) % 12) + " ";
      out += row % 2 == 0 ? "good,positive\n" : "bad,negative\n";
    }
    return out;
  }

  static std::string options(const std::string& file, const std::string& more = "") {
    return fmt::format(
        " --task classification --data.train {} --data.text opinion --data.label verdict "
        "--max_length 256 --hidden_size 64 --num_hidden_layers 2 --num_attention_heads 2 "
        "--intermediate_size 128 --max_position_embeddings 256 --data.tokenizer words --threads 1 "
        "--per_device_train_batch_size 8 --bucket_cap_mb 0 --save_strategy no {}",
        file, more);
  }

  Json asked(const std::string& file) {
    EXPECT_EQ(run("estimate --json" + options(file) + " > estimate.json"), 0) << output_;
    for (const auto& way : json("estimate.json")) {
      if (way["asked"].get<bool>()) return way["stages"][0];
    }
    return {};
  }

  /// Seconds of a step as a plan for one rank predicts them.
  double predicted_seconds(const std::string& file) {
    EXPECT_EQ(run("bench batch --rows 8 --steps 2 --json" + options(file) + " > batch.json"), 0)
        << output_;
    return json("batch.json")["trials"][0]["seconds"].get<double>();
  }
};

TEST_F(RowLengths, MemoryCoversTheLongestAndTimeIsOfAUsualOne) {
  write_file(folder_ / "short.csv", texts(-1));
  write_file(folder_ / "one.csv", texts(399));
  write_file(folder_ / "long.csv", texts(-1, 250));
  const auto without = asked("short.csv"), one = asked("one.csv");
  EXPECT_GT(one["activations"].get<double>(), 5 * without["activations"].get<double>());
  // An epoch has the long text somewhere, and goes through within what was estimated.
  ASSERT_EQ(run("train" + options("one.csv", fmt::format("--num_train_epochs 1 --output_dir out "
                                                         "--device_memory {}",
                                                         one["sum"].get<int64_t>() * 101 / 100))),
            0)
      << output_;
  const double taken = json("out/train_results.json")["memory_bytes_per_rank"];
  EXPECT_NEAR(one["sum"].get<double>() / taken, 1, 0.03);
  const double with_one = predicted_seconds("one.csv"), all_short = predicted_seconds("short.csv"),
               all_long = predicted_seconds("long.csv");
  EXPECT_LT(with_one, 2.5 * all_short);
  EXPECT_LT(with_one, 0.4 * all_long);
}

TEST_F(RowLengths, AreReadFromTheFilesOfSessions) {
  // The last session is the longest by far.
  std::string events = "user,item,time\n";
  int64_t time = 0;
  for (int session = 0; session < 200; ++session) {
    const int length = session == 199 ? 60 : 4;
    for (int i = 0; i < length; ++i) {
      events += fmt::format("{},{},{}\n", session, (session * 7 + i) % 40, ++time);
    }
  }
  write_file(folder_ / "events.csv", events);
  ASSERT_EQ(run("data sessions events.csv --max-length 64 --output sessions"), 0) << output_;
  const std::string train =
      " --data.path sessions --d_model 32 --n_layer 2 --n_head 2 --dropout 0 --data.max_length 64 "
      "--per_device_train_batch_size 16 --threads 1 --bucket_cap_mb 0 --save_strategy no ";
  ASSERT_EQ(run("estimate --json" + train + " > estimate.json"), 0) << output_;
  double sum = 0;
  for (const auto& way : json("estimate.json")) {
    if (way["asked"].get<bool>()) sum = way["stages"][0]["sum"];
  }
  ASSERT_EQ(run("train --num_train_epochs 1 --output_dir out" + train), 0) << output_;
  const double taken = json("out/train_results.json")["memory_bytes_per_rank"];
  EXPECT_NEAR(sum / taken, 1, 0.05);
}

}  // namespace
}  // namespace convoy
