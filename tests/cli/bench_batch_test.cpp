#include <cmath>
#include <string>

#include "tests/cli/command_testing.h"

// Speed and memory by micro-batch, predicted beside measured.
namespace convoy {
namespace {

class BenchBatch : public CommandTest {
 protected:
  static std::string options(const std::string& more) {
    return " --family gpt2 --n_embd 64 --n_layer 3 --n_head 4 --n_positions 64 --vocab_size 500 "
           "--random_tokens 20000 --block_size 64 --threads 1 --bucket_cap_mb 0 --steps 2 " +
           more;
  }
};

TEST_F(BenchBatch, TrainsEachSizeBesideItsPrediction) {
  ASSERT_EQ(run("bench batch --ranks 2 --rows 4,1 --output batches.json" +
                options("--zero 1 --global_batch_size 8")),
            0)
      << output_;
  expect("2 data, zero 1");
  expect("time: median error");
  expect("fastest: micro-batches of");
  const auto found = json("batches.json");
  EXPECT_EQ(found["stopped"], "");
  EXPECT_EQ(found["ranks"], 2);
  ASSERT_EQ(found["trials"].size(), 2U);
  for (int64_t n = 0; n < 2; ++n) {
    const auto& trial = found["trials"][static_cast<size_t>(n)];
    EXPECT_EQ(trial["per_device_train_batch_size"], n == 0 ? 1 : 4);
    EXPECT_EQ(trial["gradient_accumulation_steps"], n == 0 ? 4 : 1);
    EXPECT_EQ(trial["step_rows"], 8);
    EXPECT_GT(trial["seconds"], 0);
    EXPECT_GT(trial["samples_per_second"], 0);
    EXPECT_NEAR(trial["samples_per_second"].get<double>() * trial["measured_seconds"].get<double>(),
                8, 0.1);
    EXPECT_NEAR(trial["memory_bytes"].get<double>() / trial["measured_memory_bytes"].get<double>(),
                1, 0.02)
        << trial;
  }
  EXPECT_GT(found["trials"][1]["activations_bytes"].get<double>(),
            2 * found["trials"][0]["activations_bytes"].get<double>());
}

TEST_F(BenchBatch, EndsAtWhatDoesNotFit) {
  ASSERT_EQ(run("bench batch --json --device_memory 6MB > limited.json" + options("")), 0)
      << output_;
  const auto found = json("limited.json");
  const auto number = found["trials"].size();
  ASSERT_GE(number, 2U);
  for (size_t n = 0; n < number; ++n) {
    const auto& trial = found["trials"][n];
    const bool is_last = n + 1 == number;
    EXPECT_EQ(trial["per_device_train_batch_size"], 1 << n);
    EXPECT_EQ(trial["fits"] == "no", is_last) << trial;
    EXPECT_EQ(trial.contains("measured_seconds"), !is_last) << trial;
    EXPECT_EQ(trial["memory_bytes"].get<int64_t>() > 6'000'000, is_last) << trial;
  }
  const auto why = found["stopped"].get<std::string>();
  EXPECT_NE(why.find("does not fit: "), std::string::npos) << why;
  EXPECT_NE(why.find("short; a rank has device_memory = 5.72 MiB"), std::string::npos) << why;
}

TEST_F(BenchBatch, SaysWhatDoesNotGo) {
  // What does not divide ends the list; nothing that does is an error.
  ASSERT_EQ(run("bench batch --rows 2,3" + options("--global_batch_size 4")), 0) << output_;
  expect("stopped: ");
  expect("does not divide into micro-batches of 3 rows");
  EXPECT_EQ(run("bench batch --rows 3" + options("--global_batch_size 4")), 2) << output_;
  EXPECT_EQ(run("bench batch --rows 1000" + options("")), 2) << output_;
  expect("a step of 1000 rows is more than the training data has");
  EXPECT_EQ(run("bench batch --rows 1" + options("--device_memory 1MB")), 1) << output_;
  expect("does not fit");
  EXPECT_EQ(run("bench batch --rows 1" + options("--strategy plan")), 2) << output_;
  expect("strategy = plan chooses its micro-batches itself");
}

}  // namespace
}  // namespace convoy
