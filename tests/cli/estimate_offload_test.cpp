#include <fmt/format.h>

#include <cmath>
#include <random>
#include <string>

#include "tests/cli/command_testing.h"

// Random small runs whose state lies partly on a disk: what is estimated is what a rank takes, and
// as much as a limit has to allow.
namespace convoy {
namespace {

class EstimateOfOffload : public CommandTest {
 protected:
  /// Draws runs until so many were trained.
  void compare(uint64_t seed, int number) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::initializer_list<const char*> from) -> std::string {
      return *(from.begin() + random() % from.size());
    };
    for (int n = 0; n < number; ++n) {
      const auto zero = n % 4;
      const int ranks = 1 + static_cast<int>(random() % 2);
      const bool recompute = random() % 3 == 0;
      const auto place = [&](const char* option, int from) {
        return zero >= from && random() % 2 == 0 ? fmt::format("--{} disk ", option)
                                                 : std::string();
      };
      std::string more = place("offload_optimizer", 0) + place("offload_gradients", 2) +
                         place("offload_parameters", 3);
      if (more.empty()) more = "--offload_optimizer disk ";
      more += pick({"--family gpt2 --n_embd 192 --n_layer 3 --n_head 4 --n_positions 64 ",
                    "--family llama --hidden_size 160 --intermediate_size 416 --num_hidden_layers "
                    "4 --num_attention_heads 4 --max_position_embeddings 64 "});
      more += fmt::format("--vocab_size {} --gradient_accumulation_steps {} --bucket_cap_mb {} ",
                          500 + random() % 4000, 1 + random() % 3, pick({"0", "1", "4", "25"}));
      more += pick({"", "", "--bf16 "}) + pick({"", "--optim adamw_bf16 ", "--optim lion_32bit "});
      if (zero >= 2) more += pick({"", "--zero_reduce last "});
      if (zero == 3) more += pick({"", "--prefetch 0 ", "--prefetch 3 "});
      expect_what_is_taken(more, ranks, zero, recompute);
    }
  }

 private:
  static std::string options(const std::string& more) {
    return " --random_tokens 20000 --block_size 64 --per_device_train_batch_size 4 --threads 1 "
           "--offload_dir . " +
           more;
  }

  void expect_what_is_taken(const std::string& more, int ranks, int zero, bool recompute) {
    SCOPED_TRACE(fmt::format("{}, {} ranks, zero {}{}", more, ranks, zero,
                             recompute ? ", all is recomputed" : ""));
    const auto way =
        fmt::format("{}--zero {} {}", more, zero, recompute ? "--gradient_checkpointing " : "");
    ASSERT_EQ(run(fmt::format("estimate --json --ranks {}{} > estimate.json", ranks, options(way))),
              0)
        << output_;
    Json told;
    // A rank alone shares nothing, whatever the stage of ZeRO: the row of what is asked has
    // another.
    for (const auto& row : json("estimate.json")) {
      if (row["asked"] == true) told = row["stages"][0];
    }
    ASSERT_FALSE(told.is_null());
    // One part in a hundred more than is said, and not a byte beside.
    const auto limit = static_cast<int64_t>(1.01 * told["sum"].get<double>());
    ASSERT_EQ(run(fmt::format("train{}--device_memory {} --max_steps 3 --save_strategy no "
                              "--output_dir out --overwrite_output_dir --nproc {}",
                              options(way), limit, ranks)),
              0)
        << output_;
    const auto taken = json("out/train_results.json");
    const auto real = [&](const std::string& kind) {
      return taken.at("memory_" + kind + "bytes_per_rank").get<double>();
    };
    for (const char* kind : {"parameters", "gradients", "optimizer", "gathered", "buffers"}) {
      EXPECT_EQ(told[kind].get<double>(), real(std::string(kind) + "_")) << kind;
    }
    constexpr double kMiB = 1 << 20;
    const double told_sum = told["sum"].get<double>(), sum = real("");
    EXPECT_GE(told_sum, 0.99 * sum) << told;
    EXPECT_LE(told_sum, sum + std::max(0.02 * sum, kMiB / 4)) << told;
    EXPECT_NEAR(told["activations"].get<double>(), real("activations_"),
                std::max(0.03 * real("activations_"), kMiB / 8));
  }
};

TEST_F(EstimateOfOffload, IsWhatARankTakesOfRandomRuns) {
  compare(/*seed=*/11, /*number=*/8);
}

/// ./dev test --all.
TEST_F(EstimateOfOffload, DISABLED_IsWhatARankTakesOfManyRandomRuns) {
  compare(/*seed=*/12, /*number=*/100);
}

}  // namespace
}  // namespace convoy
