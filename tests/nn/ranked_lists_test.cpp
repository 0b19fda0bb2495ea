#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <memory>

#include "convoy/nn/losses/ranking.h"
#include "tests/comm/ranks_testing.h"
#include "tests/nn/testing.h"

namespace convoy::nn {
namespace {

/// Whole numbers: products are exact however they are cut, and many scores tie.
struct RankedScores {
  int64_t num_ids = 37, num_rows = 900;
  at::Tensor table = at::randint(-2, 3, {num_ids, 2}).to(at::kFloat);
  at::Tensor states = at::randint(-2, 3, {num_rows, 2}).to(at::kFloat);
  at::Tensor targets = at::randint(1, num_ids, {num_rows}, at::kLong);
  LeftOut left_out{at::tensor({3, 30}, at::kLong),
                   at::randint(0, num_ids, {num_rows, 5}, at::kLong)};

  /// All ids of a row in the order of tied_ranks(), by that alone; 0 behind those that compete.
  at::Tensor order(const ParamPtr& all, int64_t k) const {
    auto out = at::zeros({num_rows, k}, at::kLong);
    for (int64_t id = 1; id < num_ids; ++id) {
      const auto ranks =
          tied_ranks(states, all, at::full({num_rows}, id, at::kLong), 1, {}, left_out);
      for (int64_t row = 0; row < num_rows; ++row) {
        const auto rank = ranks[row].item<int64_t>();
        if (rank <= k) out[row][rank - 1] = id;
      }
    }
    return out;
  }
};

TEST(RankedLists, AreInTheOrderOfRanks) {
  const at::NoGradGuard no_grad;
  const RankedScores of;
  const auto all = param(of.table);
  for (const int64_t k : {1, 10, 40}) {  // more than compete, more than there are
    const auto lists = tied_lists(of.states, all, of.targets, k, 1, {}, of.left_out);
    EXPECT_TRUE(at::equal(lists.ids, of.order(all, k))) << k;
    EXPECT_TRUE(at::equal(lists.ranks, tied_ranks(of.states, all, of.targets, 1, {}, of.left_out)));
  }
  EXPECT_EQ(tied_lists(of.states, all, of.targets, 0).ids.sizes(), (at::IntArrayRef{900, 0}));
}

TEST(RankedLists, AreTheSameWhereRanksShareTheTable) {
  const RankedScores of;
  const auto all = param(of.table);
  const auto whole = tied_lists(of.states, all, of.targets, 7, 1, {}, of.left_out);
  comm::run_thread_ranks(3, [&](comm::Group group) {
    const at::NoGradGuard each;
    ParamSpec spec{"p", of.table.sizes().vec(), Init::zeros()};
    spec.cut = {0};
    auto part = std::make_shared<Param>(spec);
    part->cut({group.rank(), group.size()});
    part->bind_value(of.table.narrow(0, part->begin(), part->shape()[0]).clone());
    const auto lists = tied_lists(of.states, part, of.targets, 7, 1, group, of.left_out);
    EXPECT_TRUE(at::equal(lists.ids, whole.ids));
    EXPECT_TRUE(at::equal(lists.ranks, whole.ranks));
  });
}

}  // namespace
}  // namespace convoy::nn
