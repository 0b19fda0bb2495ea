#include <cmath>
#include <map>
#include <string>

#include "tests/cli/command_testing.h"

// A step shared out along each of FlexFlow's axes, beside one device.
namespace convoy {
namespace {

class BenchAxes : public CommandTest {
 protected:
  static std::string options(const std::string& more) {
    return " --family gpt2 --n_embd 64 --n_layer 3 --n_head 4 --n_positions 64 --vocab_size 500 "
           "--random_tokens 20000 --block_size 64 --threads 1 --bucket_cap_mb 0 --steps 3 "
           "--learning_rate 1e-3 " +
           more;
  }
};

TEST_F(BenchAxes, EachTrainsAsOneDeviceDoes) {
  ASSERT_EQ(run("bench axes --output axes.json" + options("")), 0) << output_;
  expect("10 x 64 on 2 ranks");
  expect("even if messages were free");
  const auto found = json("axes.json");
  std::map<std::string, std::string> shares;
  for (const auto& trial : found["trials"]) {
    SCOPED_TRACE(trial.dump());
    shares[trial["axis"]] = trial["share"];
    ASSERT_EQ(trial["refused"], "");
    EXPECT_GT(trial["seconds"], 0);
    EXPECT_GT(trial["measured_seconds"], 0);
    EXPECT_LT(std::abs(trial["loss_off"].get<double>()), 1e-4);
    EXPECT_NEAR(trial["memory_bytes"].get<double>() / trial["measured_memory_bytes"].get<double>(),
                1, 0.05);
  }
  const std::map<std::string, std::string> expected{{"", "10 x 64"},
                                                    {"sample", "5 x 64"},
                                                    {"attribute", "10 x 32"},
                                                    {"parameter", "10 x 64, columns"},
                                                    {"operator", "10 x 64, stages"}};
  EXPECT_EQ(shares, expected);
  EXPECT_GT(found["operators"], 50);
  EXPECT_GE(found["operators_least_seconds"].get<double>(),
            0.5 * found["operators_seconds"].get<double>());
  EXPECT_LT(found["operators_least_seconds"].get<double>(),
            found["operators_seconds"].get<double>());
}

TEST_F(BenchAxes, SaysWhatAModelDoesNotTake) {
  EXPECT_EQ(run("bench axes --rows 9" + options("")), 2) << output_;
  expect("9 rows do not divide over 2 ranks; try --rows 10");
  const std::string t5 =
      " --family t5 --d_model 32 --num_layers 2 --num_heads 2 --d_kv 16 --d_ff 64 --vocab_size 200 "
      "--random_tokens 20000 --block_size 32 --threads 1 --steps 2 ";
  ASSERT_EQ(run("bench axes --rows 4 --output axes.json" + t5), 0) << output_;
  expect("attribute: ");
  expect("context_parallel_size");
  size_t trained = 0;
  const auto found = json("axes.json");
  for (const auto& trial : found["trials"]) trained += trial.contains("measured_seconds");
  EXPECT_EQ(trained, 4U);
}

}  // namespace
}  // namespace convoy
