#include "convoy/optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "tests/optim/testing.h"

// What every optimizer owes to those who call it.
namespace convoy::optim {
namespace {

const StepNumbers kNumbers{.learning_rate = 1e-2, .step = 7, .grad_divisor = 3, .seed = 5};

class EachOptimizer : public testing::TestWithParam<std::string> {
 protected:
  OptimizerPtr optimizer() const {
    return make_optimizer(GetParam(), {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6});
  }
};

TEST_P(EachOptimizer, IsSavedUnderANameThatCanBeAskedFor) {
  const auto names = optimizer_names();
  EXPECT_EQ(std::count(names.begin(), names.end(), optimizer()->name()), 1);
}

TEST_P(EachOptimizer, CountsWhatItKeeps) {
  int64_t bytes = 0;
  for (const auto& state : random_stretch(*optimizer(), 100).states) {
    bytes += static_cast<int64_t>(state.nbytes());
  }
  EXPECT_EQ(bytes, 100 * optimizer()->state_bytes());
}

TEST_P(EachOptimizer, GivesTheSameBitsHoweverAStretchIsCut) {
  const auto whole = random_stretch(*optimizer(), 1003, 0.1);
  const auto all = copy_of(whole), cut = copy_of(whole);
  optimizer()->update(all, kNumbers);
  EXPECT_FALSE(all.weights.equal(whole.weights));
  for (const auto& [begin, end] : {std::pair{0, 5}, {5, 21}, {21, 517}, {517, 1003}}) {
    optimizer()->update(part_of(cut, begin, end), kNumbers);
  }
  EXPECT_TRUE(all.weights.equal(cut.weights));
  for (size_t k = 0; k < all.states.size(); ++k) {
    EXPECT_FALSE(all.states[k].equal(whole.states[k])) << k;
    EXPECT_TRUE(all.states[k].equal(cut.states[k])) << k;
  }
}

TEST_P(EachOptimizer, GivesTheSameBitsOnAnyNumberOfThreads) {
  const auto whole = random_stretch(*optimizer(), 200'003, 0.1);
  const auto one = copy_of(whole), three = copy_of(whole);
  at::set_num_threads(1);
  optimizer()->update(one, kNumbers);
  at::set_num_threads(3);
  optimizer()->update(three, kNumbers);
  at::set_num_threads(1);
  EXPECT_TRUE(one.weights.equal(three.weights));
  for (size_t k = 0; k < one.states.size(); ++k) {
    EXPECT_TRUE(one.states[k].equal(three.states[k])) << k;
  }
}

TEST_P(EachOptimizer, RoundsTheNewWeightsToTheComputeDtype) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    auto stretch = random_stretch(*optimizer(), 1003, 0.1);
    stretch.rounded = at::zeros({1003}, dtype);
    optimizer()->update(stretch, kNumbers);
    EXPECT_TRUE(stretch.rounded.equal(stretch.weights.to(dtype)));
  }
}

TEST_P(EachOptimizer, LeavesGapsZero) {
  const auto stretch = random_stretch(*optimizer(), 1003, 0.1);
  optimizer()->update(stretch, kNumbers);
  EXPECT_TRUE(stretch.weights.narrow(0, 501, 7).eq(0).all().item<bool>());
  for (const auto& state : stretch.states) {
    EXPECT_TRUE(state.narrow(0, 501, 7).eq(0).all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachOptimizer, testing::ValuesIn(optimizer_names()));

TEST(Optimizer, AnUnknownNameIsToldWithThoseThereAre) {
  try {
    make_optimizer("lion_32bits");
    FAIL() << "it was made";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("expected one of adamw_torch, "), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace convoy::optim
