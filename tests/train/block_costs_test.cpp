#include "convoy/planner/cost/block_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "convoy/base/error.h"
#include "tests/train/zero_testing.h"

namespace convoy::train {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using zero_testing::zero_arguments;

constexpr int kRanks = 2;

/// A model of one block that takes its time.
class Slow : public nn::Block {
 public:
  explicit Slow(std::chrono::milliseconds each_row) : Block("slow"), each_row_(each_row) {}

  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    const auto x = in.at("x");
    std::this_thread::sleep_for(each_row_ * x.size(0));
    return {{"loss", x.sum()}, {"count", at::ones({})}};
  }
  std::string cost_key() const override { return "slow"; }

 private:
  std::chrono::milliseconds each_row_;
};

std::shared_ptr<dataset::Dataset> rows(int64_t number) {
  return dataset::make_map_dataset(number, [](const std::vector<int64_t>& wanted) {
    return nn::Bundle{{"x", at::ones({static_cast<int64_t>(wanted.size()), 4})}};
  });
}

planner::MeasureOptions measuring() {
  return {
      .sizes = planner::sizes_to_run(64), .neighbours = kRanks, .always = planner::kMeasuredRows};
}

/// Rows of micro-batches that were run for one of so many.
std::vector<int64_t> sizes_run(const parallel::ModelFactory& factory, const dataset::Dataset& data,
                               int64_t asked) {
  planner::BlockCosts costs(factory, zero_arguments(0), data, measuring());
  costs.of({.rows = asked});
  std::vector<int64_t> out;
  for (const auto& [share, blocks] : costs.known()) out.push_back(share.rows);
  return out;
}

TEST(BlockCosts, AreMeasuredForLargeMicroBatchesWhereThatIsSoonDone) {
  const auto fast = [] { return nn::BlockList{std::make_shared<Slow>(0ms)}; };
  EXPECT_THAT(sizes_run(fast, *rows(100), 2), ElementsAre(2));
  EXPECT_THAT(sizes_run(fast, *rows(100), 40), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(sizes_run(fast, *rows(20), 40), ElementsAre(8, 16));  // no more rows are there
  const auto slow = [] { return nn::BlockList{std::make_shared<Slow>(40ms)}; };
  EXPECT_THAT(sizes_run(slow, *rows(100), 40), ElementsAre(4, 8));
}

TEST(BlockCosts, GrowLinearlyBeyondTheMeasuredRows) {
  const auto data = rows(100);
  planner::BlockCosts costs([] { return nn::BlockList{std::make_shared<Slow>(40ms)}; },
                            zero_arguments(0), *data, measuring());
  const double seconds = costs.of({.rows = 40}).at(0).forward_seconds;
  EXPECT_GT(seconds, 1.5);  // on a line through two sleeps
  EXPECT_LT(seconds, 2.4);
}

// A thread that fails does not let the others wait for it.
TEST(BlockCosts, TellWhatOneOfTheThreadsMet) {
  std::atomic<int> made = 0;
  const auto factory = [&made]() -> nn::BlockList {
    if (++made == 3) throw std::runtime_error("the second thread has no model");
    return {std::make_shared<Slow>(1ms)};
  };
  const auto data = rows(100);
  planner::BlockCosts costs(factory, zero_arguments(0), *data,
                            {.sizes = {1}, .neighbours = kRanks});
  EXPECT_THAT([&] { costs.of({.rows = 1}); },
              testing::ThrowsMessage<std::runtime_error>("the second thread has no model"));
}

}  // namespace
}  // namespace convoy::train
