#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "convoy/base/error.h"
#include "convoy/formats/safetensors.h"
#include "convoy/optim/optimizer.h"
#include "tests/train/zero_testing.h"

// Whatever the optimizer keeps, no layout changes a bit of what it comes to.
namespace convoy::train {
namespace {

using namespace zero_testing;

class EachOptimizer : public testing::TestWithParam<std::string> {
 protected:
  EachOptimizer() { at::set_num_threads(1); }
  ~EachOptimizer() override { std::filesystem::remove_all(folder_); }

  options::TrainingArguments arguments(int64_t zero, int64_t accumulation = 1) const {
    auto out = zero_arguments(zero, accumulation);
    out.optim = GetParam();
    out.learning_rate = 1e-3;
    return out;
  }
  options::TrainingArguments on_disk(options::TrainingArguments out) const {
    out.parallel.parallelism.offload.folder = folder_.string();
    out.parallel.parallelism.offload.optimizer = parallel::Place::Disk;
    if (out.parallel.parallelism.zero >= 3)
      out.parallel.parallelism.offload.parameters = parallel::Place::Disk;
    return out;
  }

  const std::filesystem::path folder_ = unique_folder("convoy-optimizers");
};

TEST_P(EachOptimizer, GivesOneDevicesBitsInEveryLayout) {
  for (const char* precision : {"fp32", "bf16"}) {
    const auto alone =
        outcome_of(small_llama, texts(), in_precision(arguments(0, 2), precision), one_device());
    EXPECT_LT(alone.losses.back(), alone.losses.front());
    const auto same = [&](const char* what, const Outcome& outcome) {
      SCOPED_TRACE(fmt::format("{} in {}", what, precision));
      expect_same_bits(alone, outcome, kZeroSteps);
    };
    for (const int64_t stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(stage);
      const auto options = in_precision(arguments(stage), precision);
      same("two ranks", on_ranks(2, small_llama, options));
      if (stage == 3) same("on the disk", on_ranks(2, small_llama, on_disk(options)));
    }
    const auto options = in_precision(arguments(0), precision);
    same("replicas", outcome_of(small_llama, texts(), options, replicas(2)));
    same("one device, on the disk",
         outcome_of(small_llama, texts(), on_disk(in_precision(arguments(0, 2), precision)),
                    one_device()));
  }
}

TEST_P(EachOptimizer, ResumesExactlyOnAnotherLayout) {
  const auto whole = on_ranks(2, small_gpt2, arguments(2));
  auto first = arguments(2);
  first.output.dir = (folder_ / "run").string();
  first.save_strategy = "steps";
  first.save_steps = 4;
  on_ranks(2, small_gpt2, first);
  const auto checkpoint = folder_ / "run/checkpoint-4";
  const formats::SafetensorsFile file(checkpoint / "optimizer.safetensors");
  std::set<std::string> expected, dtypes;
  for (const auto& state : optim::make_optimizer(GetParam())->states()) {
    expected.insert(state.dtype == at::kBFloat16 ? "BF16" : "F32");
    EXPECT_EQ(file.entry(state.name + ".transformer.wte.weight").shape.size(), 2U);
  }
  for (const auto& [name, entry] : file.entries()) dtypes.insert(entry.dtype);
  EXPECT_EQ(dtypes, expected);
  for (const int64_t stage : {0, 3}) {
    auto rest = arguments(stage);
    rest.resume_from_checkpoint = checkpoint.string();
    const auto resumed = on_ranks(2, small_gpt2, rest);
    ASSERT_EQ(resumed.losses.size(), 6U) << stage;
    EXPECT_EQ(resumed.losses.back(), whole.losses.back()) << stage;
    EXPECT_TRUE(at::equal(resumed.weights, whole.weights)) << stage;
  }
}

TEST_P(EachOptimizer, TakesTheMemoryThatItSays) {
  const auto options = arguments(0);
  Trainer trainer(small_gpt2, options, texts(), nullptr, one_device());
  trainer.train();
  const auto& replica = trainer.strategy().replica();
  EXPECT_EQ(replica.memory().optimizer,
            trainer.strategy().replica().flat().layout().kept(parallel::Kind::Moments) *
                optim::make_optimizer(GetParam())->state_bytes());
}

TEST_P(EachOptimizer, RefusesTheStateOfAnother) {
  auto other = arguments(0);
  other.optim = GetParam() == "lion_32bit" ? "adamw_torch" : "lion_32bit";
  other.output.dir = (folder_ / "run").string();
  other.save_strategy = "steps";
  other.save_steps = 4;
  outcome_of(small_gpt2, texts(), other, one_device());
  auto rest = arguments(0);
  rest.resume_from_checkpoint = (folder_ / "run/checkpoint-4").string();
  try {
    outcome_of(small_gpt2, texts(), rest, one_device());
    FAIL() << "it went on";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format(
                                  "checkpoint-4 is of {}; got {}; try --optim {}, or start anew",
                                  other.optim, GetParam(), other.optim)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachOptimizer,
                         testing::Values("adamw_torch", "adamw_bf16", "lion_32bit"));

}  // namespace
}  // namespace convoy::train
