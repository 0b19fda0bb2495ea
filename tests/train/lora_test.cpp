#include <fmt/format.h>
#include <gtest/gtest.h>

#include "convoy/checkpoint/adapter.h"
#include "tests/train/zero_testing.h"

// Low-rank adapters are the same computation on one device and on ranks, bit for bit.
namespace convoy::train {
namespace {

using namespace zero_testing;

checkpoint::AdapterConfig some_adapters() {
  checkpoint::AdapterConfig out;
  out.r = 4;
  out.alpha = 16;
  return out;
}

parallel::ModelFactory adapted_model(const std::string& family,
                                     const checkpoint::AdapterConfig& config) {
  return [=] {
    auto own = config;
    const auto blocks = family == "t5"     ? small_t5()
                        : family == "gpt2" ? small_gpt2()
                                           : small_llama();
    models::WeightLayout layout;
    layout.head = "lm_head.weight";
    return checkpoint::adapted(blocks, own, layout);
  };
}

std::shared_ptr<dataset::Dataset> rows_of(const std::string& family) {
  return family == "t5" ? plain_texts() : texts();
}

class LoraLayouts : public testing::TestWithParam<std::tuple<const char*, double>> {
 protected:
  std::string family() const { return std::get<0>(GetParam()); }
  parallel::ModelFactory model() const {
    auto config = some_adapters();
    config.dropout = std::get<1>(GetParam());
    return adapted_model(family(), config);
  }
  Outcome alone(int64_t accumulation) const {
    return outcome_of(model(), rows_of(family()), zero_arguments(0, accumulation), one_device());
  }
};

TEST_P(LoraLayouts, RanksAndZeroAreOneDeviceBitForBit) {
  const auto expected = alone(2);
  for (const int64_t stage : {0, 1, 2, 3}) {
    for (const bool recompute : {false, true}) {
      SCOPED_TRACE(fmt::format("stage {}, recompute {}", stage, recompute));
      auto options = zero_arguments(stage);
      options.gradient_checkpointing = recompute;
      expect_same_bits(expected, on_ranks(2, model(), options, rows_of(family())), kZeroSteps);
    }
  }
}

TEST_P(LoraLayouts, DropsTheSameElementsHoweverRowsAreCut) {
  const auto rate = std::get<1>(GetParam());
  const auto other = outcome_of(adapted_model(family(), some_adapters()), rows_of(family()),
                                zero_arguments(0, 2), one_device());
  EXPECT_EQ(alone(2).losses.back() == other.losses.back(), rate == 0);
}

INSTANTIATE_TEST_SUITE_P(Families, LoraLayouts,
                         testing::Combine(testing::Values("gpt2", "llama", "t5"),
                                          testing::Values(0.0, 0.3)));

}  // namespace
}  // namespace convoy::train
