#include <fmt/format.h>

#include <string>

#include "tests/cli/command_testing.h"

// A limit of a rank's memory, held against estimates, plans and trainings.
namespace convoy {
namespace {

class DeviceMemory : public CommandTest {
 protected:
  static std::string options(const std::string& more) {
    return " --family gpt2 --n_embd 64 --n_layer 4 --n_head 4 --n_positions 64 --vocab_size 500 "
           "--random_tokens 40000 --block_size 64 --threads 1 --bucket_cap_mb 0 --max_steps 2 "
           "--save_strategy no " +
           more;
  }

  /// What the estimate says of what is asked for.
  Json estimate(const std::string& more) {
    EXPECT_EQ(run("estimate --json" + options(more) + " > estimate.json"), 0) << output_;
    for (const auto& way : json("estimate.json")) {
      if (way["asked"].get<bool>()) return way;
    }
    return {};
  }
};

TEST_F(DeviceMemory, EndsATrainingThatTakesMoreBesideItsEstimate) {
  const auto asked = estimate("--per_device_train_batch_size 16");
  EXPECT_EQ(asked["fits"], "yes");
  const auto bytes = asked["stages"][0]["sum"].get<int64_t>();
  const auto limit = [](int64_t at_most) { return fmt::format("--device_memory {} ", at_most); };
  ASSERT_EQ(run("train" + options("--per_device_train_batch_size 16 " + limit(bytes * 103 / 100))),
            0)
      << output_;
  const auto too_little = limit(bytes * 8 / 10);
  EXPECT_EQ(run("train" + options("--per_device_train_batch_size 16 " + too_little)), 2) << output_;
  expect("is not enough for a step: it held parameters");
  expect("(estimate ");
  expect("try --per_device_train_batch_size ");
  const auto at = output_.find("try --per_device_train_batch_size ") + 4;
  const auto flags = output_.substr(at, output_.find_first_of("\n;", at) - at);
  ASSERT_EQ(run("train" + options(too_little + flags)), 0) << flags << "\n" << output_;
  expect("= 16 in total");
  EXPECT_EQ(run("train" + options("--per_device_train_batch_size 16 --device_memory 1MB")), 2)
      << output_;
  expect("but device_memory = 976.6 KiB");
}

TEST_F(DeviceMemory, CountsTheWeightsOfARunInBf16) {
  // 4 bytes of a parameter's master, 2 of its weight, 4 of its gradient, 8 of its moments.
  const auto bytes = estimate("--bf16 --n_embd 256 --per_device_train_batch_size 1")["stages"][0];
  const auto state = bytes["parameters"].get<int64_t>() + bytes["gradients"].get<int64_t>() +
                     bytes["optimizer"].get<int64_t>();
  const auto train = "train" + options("--bf16 --n_embd 256 --per_device_train_batch_size 1 ");
  ASSERT_EQ(run(train + fmt::format("--device_memory {}", state * 95 / 100)), 2) << output_;
  expect("the whole model with gradient and the optimizer's states");
  const auto offloaded =
      "--n_embd 256 --per_device_train_batch_size 1 --bucket_cap_mb 0 --bf16 "
      "--offload_optimizer disk --offload_dir . ";
  const auto less = estimate(offloaded)["stages"][0]["sum"].get<int64_t>() * 103 / 100;
  ASSERT_EQ(run("train" + options(offloaded + fmt::format("--device_memory {} ", less))), 0)
      << output_;
}

TEST_F(DeviceMemory, SaysWhatFits) {
  EXPECT_EQ(estimate("--per_device_train_batch_size 4 --device_memory 1MB")["fits"], "no");
  const auto four = estimate("--per_device_train_batch_size 4");
  const auto bytes = four["stages"][0]["sum"].get<int64_t>();
  const auto tight =
      fmt::format("--per_device_train_batch_size 4 --device_memory {} ", bytes + 1000);
  EXPECT_EQ(estimate(tight)["fits"], "at risk");
  EXPECT_LT(estimate(tight)["most_rows"].get<int>(), 4);
  const auto room = fmt::format("--per_device_train_batch_size 4 --device_memory {} ", 2 * bytes);
  const auto most = estimate(room)["most_rows"].get<int64_t>();
  EXPECT_GT(most, 4);
  EXPECT_EQ(run("train" + options(fmt::format("--device_memory {} --per_device_train_batch_size {}",
                                              2 * bytes, most))),
            0)
      << output_;
  EXPECT_EQ(run("train" + options(fmt::format("--device_memory {} --per_device_train_batch_size {}",
                                              2 * bytes, most * 11 / 10 + 2))),
            2)
      << output_;
  ASSERT_EQ(run("estimate" + options("--per_device_train_batch_size 4 --device_memory 7MB")), 0);
  expect("Room: device_memory = 6.68 MiB");
  expect("Fits: --per_device_train_batch_size 1 --gradient_accumulation_steps 4");
}

// Sessions differ in length, and the largest of more rows is longer by less.
TEST_F(DeviceMemory, LargestEstimatedBatchTrains) {
  make_sessions(2000);
  for (const char* body : {"--model.body bert", "--model.body xlnet --masking plm"}) {
    SCOPED_TRACE(body);
    const auto with = fmt::format(
        " --data.path syn --d_model 64 --n_layer 2 --n_head 2 --threads 1 --max_steps 12 "
        "--device_memory 6MB {} ",
        body);
    ASSERT_EQ(run("estimate --json" + with + "> estimate.json"), 0) << output_;
    const auto most = json("estimate.json")[0]["most_rows"].get<int>();
    const auto rows = fmt::format("--per_device_train_batch_size {} ", most);
    ASSERT_EQ(run("estimate --json" + with + rows + "> estimate.json"), 0) << output_;
    EXPECT_EQ(json("estimate.json")[0]["fits"], "yes") << most;
    EXPECT_NEAR(json("estimate.json")[0]["most_rows"].get<double>(), most, 3);
    EXPECT_EQ(run("train --save_strategy no --overwrite_output_dir --output_dir out" + with + rows),
              0)
        << most << output_;
  }
}

TEST_F(DeviceMemory, FindsTheLargestBatchThatFits) {
  const auto bytes = estimate("--per_device_train_batch_size 4")["stages"][0]["sum"].get<int64_t>();
  const auto find = options(fmt::format(
      "--auto_find_batch_size --device_memory {} --global_batch_size 32 ", bytes * 11 / 10));
  ASSERT_EQ(run("train" + find), 0) << output_;
  expect("4 per device x 1 device x 8 accumulation = 32 in total");
  ASSERT_EQ(run("train --nproc 2" + find), 0) << output_;
  expect("4 per device x 2 devices x 4 accumulation = 32 in total");
  EXPECT_EQ(run("train --auto_find_batch_size --nproc 2" + options("--global_batch_size 31")), 2)
      << output_;
  expect("does not divide over 2 ranks");
}

TEST_F(DeviceMemory, EstimatesAModelsFolder) {
  write_file(folder_ / "tiny/config.json",
             R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
                 "vocab_size": 500, "max_position_embeddings": 64, "hidden_act": "silu",
                 "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
  ASSERT_EQ(run("estimate tiny --ranks 8 --on h100-80 --per_device_train_batch_size 4 --block_size "
                "32 --zero 1 --bf16"),
            0)
      << output_;
  expect("8 ranks, 8 data, 1 x 4 rows a step");
  expect("of one h100-80");
  EXPECT_EQ(run("estimate tiny --on h10 --block_size 32"), 2) << output_;
  expect("h100-80");
}

// Its batch and its data, not those of its architecture alone.
TEST_F(DeviceMemory, EstimatesARunsFolderAsTheRun) {
  ASSERT_EQ(run("train --family gpt2 --n_layer 1 --n_embd 16 --n_head 2 --vocab_size 100 "
                "--random_tokens 30 --block_size 10 --max_steps 1 --output_dir done "
                "--per_device_train_batch_size 5"),
            0)
      << output_;
  expect("= 5 in total, more than there are examples");
  ASSERT_EQ(run("estimate done"), 0) << output_;
  expect("1 rank, 1 x 5 rows a step");
  expect("any");  // more rows than the data's take no more
  ASSERT_EQ(run("plan done --ranks 2 --on h100-80"), 0) << output_;
  expect(" 10 rows a step");
  ASSERT_EQ(run("estimate done/config.json"), 0) << output_;
  expect("1 rank, 1 x 8 rows a step");
}

}  // namespace
}  // namespace convoy
