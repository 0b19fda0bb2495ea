#include "convoy/planner/cost/operators.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace convoy::planner {
namespace {

constexpr int64_t kWidth = 384;
constexpr int kProducts = 8;

/// Products of which each needs the one before, or only the input.
class Products : public nn::Block {
 public:
  explicit Products(bool in_a_row) : Block(in_a_row ? "row" : "fan"), in_a_row_(in_a_row) {}

  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    auto x = in.at("x"), sum = at::zeros_like(x);
    for (int n = 0; n < kProducts; ++n) {
      const auto product = at::mm(x, weight_);
      sum.add_(product);
      if (in_a_row_) x = product;
    }
    return {{"x", sum}};
  }
  std::string cost_key() const override { return in_a_row_ ? "row" : "fan"; }

 private:
  bool in_a_row_;
  at::Tensor weight_ = at::full({kWidth, kWidth}, 1e-3);
};

OperatorGraph graph_of(bool in_a_row, size_t alike = 1) {
  at::set_num_threads(1);
  nn::BlockList blocks;
  for (size_t n = 0; n < alike; ++n) blocks.push_back(std::make_shared<Products>(in_a_row));
  const parallel::MicroBatch batch{{{"x", at::ones({kWidth, kWidth})}},
                                   at::arange(kWidth, at::kLong)};
  const auto all = operator_graphs(blocks, batch, {});
  EXPECT_EQ(all.size(), alike);
  EXPECT_EQ(all.back().seconds, all.front().seconds);  // that stands for the others
  return all.front();
}

TEST(Operators, DependentOnesTakeTheirTimeOnAnyNumberOfRanks) {
  const auto row = graph_of(true);
  EXPECT_GE(row.operators, 2 * kProducts + 1);
  EXPECT_GT(row.in_a_row, 0.8 * (row.seconds - row.outside));
  EXPECT_LE(row.in_a_row, row.seconds);
  EXPECT_GT(row.least_seconds(8), 0.8 * row.seconds);
}

TEST(Operators, IndependentOnesMayBeComputedAtOnce) {
  const auto fan = graph_of(false, 3);
  EXPECT_LT(fan.in_a_row, 0.5 * fan.seconds);
  EXPECT_GE(fan.least_seconds(2), 0.5 * fan.seconds);
  EXPECT_LT(fan.least_seconds(2), 0.75 * fan.seconds);
  EXPECT_LT(fan.least_seconds(8), fan.least_seconds(2));
}

// What lies where something was that nobody needs any more has nothing to do with it, and views
// of one tensor are as good as tensors of their own.
TEST(Operators, AreToldApartByTheMemoryThatTheyRead) {
  class Halves : public nn::Block {
   public:
    Halves() : Block("halves") {}
    nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
      const auto x = in.at("x");
      auto out = at::empty({2 * kWidth, kWidth});
      for (const int64_t half : {0, 1}) {
        auto own = out.narrow(0, half * kWidth, kWidth);
        for (int n = 0; n < kProducts / 2; ++n) at::mm_out(own, x, x);
      }
      return {{"x", out}};
    }
  };
  at::set_num_threads(1);
  const parallel::MicroBatch batch{{{"x", at::full({kWidth, kWidth}, 1e-3)}},
                                   at::arange(kWidth, at::kLong)};
  double least = 1;  // a run that others disturb takes longer in a part
  for (int run = 0; run < 5; ++run) {
    const auto graph = operator_graphs({std::make_shared<Halves>()}, batch, {}).front();
    least = std::min(least, graph.in_a_row / graph.seconds);
  }
  EXPECT_LT(least, 0.65);
}

}  // namespace
}  // namespace convoy::planner
