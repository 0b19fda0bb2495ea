#include "convoy/conformance/contract.h"

#include <gtest/gtest.h>

#include <set>

#include "convoy/conformance/layouts.h"

namespace convoy::conformance {
namespace {

parallel::Parallelism split(int pipeline, int data, int tensor, int64_t micro_batches,
                            int64_t zero = 0) {
  return {.ranks = {.pipeline = pipeline, .shard = data, .tensor = tensor},
          .micro_batches = micro_batches,
          .zero = zero};
}

TEST(Contract, PromisesBitsWhereTheDocsDo) {
  EXPECT_TRUE(contract_of({.split = split(1, 2, 1, 1)}).bits);     // ddp
  EXPECT_TRUE(contract_of({.split = split(1, 4, 1, 1, 1)}).bits);  // ZeRO 1
  EXPECT_TRUE(contract_of({.split = split(1, 2, 1, 4, 2)}).bits);  // ZeRO 2 reduces each
  EXPECT_TRUE(contract_of({.split = split(2, 1, 1, 4)}).bits);     // pipeline
}

TEST(Contract, PromisesRoundingWhereSumsHaveAnotherOrder) {
  EXPECT_FALSE(contract_of({.split = split(1, 2, 1, 4)}).bits);
  auto reduced_once = split(1, 2, 1, 4, 2);
  reduced_once.reduce_each = false;
  EXPECT_FALSE(contract_of({.split = reduced_once}).bits);
  EXPECT_FALSE(contract_of({.split = split(1, 1, 2, 1)}).bits);
  EXPECT_FALSE(contract_of({.split = split(2, 2, 1, 4)}).bits);
  EXPECT_FALSE(contract_of({.split = split(2, 1, 1, 4), .shares_blocks = true}).bits);
  EXPECT_FALSE(contract_of({.split = split(1, 2, 1, 1), .on_gpu = true}).bits);
}

TEST(Contract, PromisesTheProductsOfExpertRanksUnlessTheyJoinRows) {
  const auto of = [](parallel::Degrees ranks, int64_t micro_batches, bool joined = false) {
    return contract_of(
        {.split = {.ranks = ranks, .micro_batches = micro_batches, .expert_joined = joined}});
  };
  for (const auto& apart : {of({.shard = 1, .expert = 4}, 1), of({.shard = 2, .expert = 2}, 1),
                            of({.shard = 1, .expert = 2}, 2)}) {
    EXPECT_FALSE(apart.bits);
    EXPECT_TRUE(apart.same_products) << apart.reason;
  }
  EXPECT_FALSE(of({.shard = 1, .expert = 2}, 1, true).same_products);
}

TEST(Contract, IsBrokenByWhatIsBeyondIt) {
  const auto rounding = contract_of({.split = split(1, 1, 2, 1)});
  Difference off;
  off.same_bits = false;
  off.first_loss.raise(5e-7, "step 1");
  EXPECT_TRUE(broken(rounding, off).empty());
  off.gradients.raise(1e-2, "w");
  ASSERT_EQ(broken(rounding, off).size(), 1U);
  EXPECT_NE(broken(rounding, off)[0].find("(w)"), std::string::npos);
}

TEST(Contract, IsSharpInHalfPrecisionWhereProductsAreThoseOfOneDevice) {
  Difference off;
  off.same_bits = false;
  off.gradients.raise(1e-2, "w");
  for (const auto& layout : {split(1, 2, 1, 4), split(2, 2, 1, 4)}) {
    const LayoutFacts facts{.split = layout, .half_precision = true};
    EXPECT_FALSE(broken(contract_of(facts), off).empty());
  }
  const LayoutFacts tensor{.split = split(1, 1, 2, 1), .half_precision = true};
  EXPECT_TRUE(broken(contract_of(tensor), off).empty());
  const LayoutFacts gpu{.split = split(1, 2, 1, 4), .half_precision = true, .on_gpu = true};
  EXPECT_TRUE(broken(contract_of(gpu), off).empty());
}

TEST(Contract, AllowsForBothSidesRoundingInBf16) {
  const auto usual = rounding_tolerances(true);
  Difference ours, theirs;
  ours.gradients.raise(0.1, "w");
  theirs.gradients.raise(0.2, "w");
  theirs.first_norm.raise(1e-3, "step 1");
  const auto wide = widened(usual, ours, theirs);
  EXPECT_DOUBLE_EQ(wide.gradients, 0.3);
  EXPECT_DOUBLE_EQ(widened(usual, ours, theirs, 0.5).gradients, 0.15);
  EXPECT_DOUBLE_EQ(wide.norms, 0.3);  // gradients that differ by so much have such norms
  EXPECT_DOUBLE_EQ(wide.first_norm, usual.first_norm);
  EXPECT_DOUBLE_EQ(wide.first_loss, usual.first_loss);
  EXPECT_DOUBLE_EQ(wide.losses, usual.losses);
  EXPECT_DOUBLE_EQ(wide.weights, usual.weights);
  // A gradient that counts twice differs by all of it, and is found.
  theirs.gradients.raise(3, "w");
  EXPECT_DOUBLE_EQ(widened(usual, ours, theirs).gradients, 0.5);
}

TEST(Contract, EqualBitsAreBrokenByOneBit) {
  Difference off;
  off.same_bits = false;
  EXPECT_FALSE(broken({}, off).empty());
  EXPECT_TRUE(broken({}, {}).empty());
}

TEST(Layouts, TwoRanksTryEveryTechnique) {
  std::set<std::string> families;
  bool threads = false;
  for (const auto& it : layouts_of({.num_ranks = 2,
                                    .one_device = {.rows = 2, .micro_batches = 4},
                                    .num_blocks = 4,
                                    .to_disk = true})) {
    EXPECT_EQ(it.split.num_ranks(), 2);
    EXPECT_EQ(it.split.global_batch(), 8);
    families.insert(it.split.family());
    threads = threads || it.threads;
  }
  for (const char* family : {"ddp", "zero 1", "zero 2", "zero 3", "tensor", "tensor x sequence",
                             "context", "pipeline", "zero 1 x offload", "zero 3 x offload"}) {
    EXPECT_TRUE(families.contains(family)) << family;
  }
  EXPECT_TRUE(threads);
}

TEST(Layouts, FourRanksCombineTechniques) {
  std::set<std::string> families;
  for (const auto& it : layouts_of(
           {.num_ranks = 4, .one_device = {.rows = 1, .micro_batches = 8}, .num_blocks = 4})) {
    families.insert(it.split.family());
  }
  for (const char* family : {"hybrid zero 3", "pipeline x tensor", "pipeline x zero 1",
                             "tensor x zero 2", "context x tensor"}) {
    EXPECT_TRUE(families.contains(family)) << family;
  }
}

TEST(Layouts, ExpertRanksShareOutExperts) {
  std::set<std::string> families;
  for (const auto& it : layouts_of({.num_ranks = 4,
                                    .one_device = {.rows = 1, .micro_batches = 8},
                                    .num_blocks = 4,
                                    .num_experts = 4})) {
    EXPECT_EQ(it.split.num_ranks(), 4) << it.to_text();
    EXPECT_EQ(it.split.global_batch(), 8) << it.to_text();
    families.insert(it.split.family());
  }
  for (const char* family :
       {"expert", "expert x data", "expert x zero 3", "pipeline x expert", "expert x context"}) {
    EXPECT_TRUE(families.contains(family)) << family;
  }
}

TEST(Layouts, HaveNoMoreStagesThanBlocksAndShareOutTheStep) {
  for (const auto& it : layouts_of(
           {.num_ranks = 4, .one_device = {.rows = 1, .micro_batches = 2}, .num_blocks = 1})) {
    EXPECT_EQ(it.split.ranks.pipeline, 1);
    EXPECT_LE(it.split.ranks.data(), 2);
  }
}

}  // namespace
}  // namespace convoy::conformance
