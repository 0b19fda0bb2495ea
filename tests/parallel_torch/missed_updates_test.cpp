#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/parallel/row_tables/torch/missed_updates.h"

// Rows that miss updates come to what a table has that is updated whole in every step.
namespace convoy::parallel {
namespace {

constexpr int64_t kWidth = 16;

/// Two tables of the same numbers, one updated whole, one by rows.
class Tables {
 public:
  explicit Tables(int64_t rows, const std::string& optimizer = "adamw_torch")
      : optimizer_(optim::make_optimizer(optimizer)), missed_(*optimizer_, rows) {
    at::manual_seed(11);
    whole_ = {at::randn({rows, kWidth}), {}};
    for (size_t k = 0; k < optimizer_->states().size(); ++k) {
      whole_.states.push_back(at::zeros({rows, kWidth}));
    }
    by_rows_.weights = whole_.weights.clone();
    for (const auto& state : whole_.states) by_rows_.states.push_back(state.clone());
  }

  /// A step with a gradient of some rows.
  void step(const std::vector<int64_t>& rows, double learning_rate, double decay) {
    const optim::StepNumbers numbers{.learning_rate = learning_rate, .step = ++step_};
    auto grads = at::zeros(whole_.weights.sizes());
    const auto index = at::tensor(rows, at::kLong);
    missed_.make_up(rows, by_rows_);
    // Of what the rows are: a table that went astray would go on doing so.
    const auto some =
        by_rows_.weights.index_select(0, index) * 0.1 + at::randn({std::ssize(rows), kWidth});
    grads.index_copy_(0, index, some);
    update(whole_, grads, numbers, decay);
    missed_.note(numbers, decay);
    missed_.took_part(rows);
    RowState part{by_rows_.weights.index_select(0, index), {}};
    for (const auto& state : by_rows_.states) part.states.push_back(state.index_select(0, index));
    update(part, some, numbers, decay);
    by_rows_.weights.index_copy_(0, index, part.weights);
    for (size_t k = 0; k < part.states.size(); ++k) {
      by_rows_.states[k].index_copy_(0, index, part.states[k]);
    }
  }

  void make_up_all() { missed_.make_up_all(by_rows_); }
  /// Of the largest weight.
  double difference() const {
    return ((by_rows_.weights - whole_.weights).abs().max() / whole_.weights.abs().max())
        .item<double>();
  }
  bool same_bits() const {
    bool same = by_rows_.weights.equal(whole_.weights);
    for (size_t k = 0; k < whole_.states.size(); ++k) {
      same = same && by_rows_.states[k].equal(whole_.states[k]);
    }
    return same;
  }

 private:
  void update(const RowState& table, const at::Tensor& grads, const optim::StepNumbers& numbers,
              double decay) const {
    optim::FlatRange stretch{.weights = table.weights.view({-1}),
                             .grads = grads.contiguous().view({-1})};
    for (const auto& state : table.states) stretch.states.push_back(state.view({-1}));
    stretch.weight_decay = decay;
    optimizer_->update(stretch, numbers);
  }

  optim::OptimizerPtr optimizer_;
  RowState whole_, by_rows_;
  MissedUpdates missed_;
  int64_t step_ = 0;
};

double cosine(int64_t step, int64_t steps) {
  return 1e-2 * (1 + std::cos(3.14159 * static_cast<double>(step) / static_cast<double>(steps)));
}

TEST(MissedUpdates, RowsThatMissThemAreThoseOfATableThatIsUpdatedWhole) {
  constexpr int64_t kSteps = 300, kRows = 251;
  Tables tables(kRows);
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<int64_t> rows;  // row r comes every r steps; row 0 never
    for (int64_t row = 1; row < kRows; ++row) {
      if (step % row == 0) rows.push_back(row);
    }
    tables.step(rows, cosine(step, kSteps), /*decay=*/0.05);
  }
  EXPECT_GT(tables.difference(), 1e-3) << "nothing was missed";
  tables.make_up_all();
  EXPECT_LT(tables.difference(), 1e-6);
}

TEST(MissedUpdates, AFewThatAreMissedAreMadeUpForBitByBit) {
  constexpr int64_t kSteps = 150, kRows = 20;
  Tables tables(kRows);
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < kRows; ++row) {
      if (step % (row + 1) == 0) rows.push_back(row);
    }
    tables.step(rows, cosine(step, kSteps), /*decay=*/0.05);
  }
  tables.make_up_all();
  EXPECT_TRUE(tables.same_bits());
}

TEST(MissedUpdates, LongGapsLeaveWhatDecayDoes) {
  constexpr int64_t kRows = 3;
  Tables tables(kRows);
  tables.step({1}, 1e-2, 0.1);
  for (int64_t step = 0; step < 2000; ++step) tables.step({0}, 1e-3, 0.1);
  tables.step({1, 2}, 1e-2, 0.1);
  tables.make_up_all();
  EXPECT_LT(tables.difference(), 1e-6);
}

TEST(MissedUpdates, DecayOfAWholeWeightIsNoLogarithm) {
  Tables tables(2);
  for (int64_t step = 0; step < 4; ++step) tables.step({0}, step == 2 ? 1.0 : 1e-3, 1.0);
  tables.make_up_all();
  EXPECT_LT(tables.difference(), 1e-6);
}

}  // namespace
}  // namespace convoy::parallel
