#include "convoy/plan/search.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/plan/testing.h"

namespace convoy::plan {
namespace {

Found found_for(const PaperModel& model, const Cluster& cluster, int64_t global_batch,
                bool all = false) {
  Wishes wishes{.num_ranks = cluster.num_devices(), .global_batch = global_batch};
  wishes.all = all;
  return search(model.numbers(), cluster, wishes);
}

TEST(Search, IsBruteForce) {
  std::mt19937 random(3);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  int none = 0;
  size_t with_bounds = 0, without = 0;
  for (int n = 0; n < 60; ++n) {
    PaperModel model;
    model.layers = 2 + static_cast<int64_t>(random() % 5);
    model.width = 128 << random() % 3;
    model.heads = random() % 2 == 0 ? 8 : 3;  // shares of heads are uneven
    if (model.heads == 3) model.width = 96 << random() % 3;
    const auto hosts = 1 << random() % 2, devices = 1 << random() % 3;
    auto cluster = paper_cluster(hosts, devices, draw(0.02, 2) * kGiga, draw(0.1, 100) * kGiga,
                                 draw(0.01, 10) * kGiga);
    cluster.beside = random() % 2;
    const auto bounded = found_for(model, cluster, 16), all = found_for(model, cluster, 16, true);
    ASSERT_EQ(bounded.best() == nullptr, all.best() == nullptr) << n;
    if (all.best() == nullptr) {
      ++none;
      continue;
    }
    EXPECT_EQ(bounded.best()->split, all.best()->split) << n;
    EXPECT_LE(bounded.tried.size(), all.tried.size());
    with_bounds += bounded.tried.size();
    without += all.tried.size();
  }
  EXPECT_LT(5 * with_bounds, 4 * without) << "many are left out by their bounds";
  EXPECT_GT(none, 3);
  EXPECT_LT(none, 40);
}

TEST(Search, BoundsAreNeverAboveWhatASplitTakes) {
  PaperModel model;
  const auto cluster = paper_cluster(2, 4, 100 * kGiga, 10 * kGiga, kGiga);
  const auto numbers = model.numbers();
  for (const auto& [split, prediction, simplicity] : found_for(model, cluster, 32, true).tried) {
    EXPECT_LE(least_seconds(numbers, cluster, split), prediction.seconds * (1 + 1e-9))
        << split.to_text();
    EXPECT_LE(least_bytes(numbers, {}, split), prediction.memory.sum()) << split.to_text();
  }
}

// The seed's case "fits on one device": data parallelism, whatever else there is.
TEST(Decision, WhatFitsIsTrainedByDataParallelRanks) {
  PaperModel model;
  const auto found = found_for(model, paper_cluster(1, 4, 10 * kGiga, 100 * kGiga, 0), 64);
  ASSERT_NE(found.best(), nullptr);
  EXPECT_EQ(found.best()->split.data, 4);
  EXPECT_FALSE(found.best()->split.recompute);
}

// "Does not fit on one": state alone is more than a device has.
TEST(Decision, WhatDoesNotFitIsSharedOut) {
  PaperModel model;
  model.layers = 16;
  const double state = 16 * model.weights();
  for (const double inside : {100 * kGiga, 0.2 * kGiga}) {
    const auto found = found_for(model, paper_cluster(1, 4, state / 2, inside, 0), 64);
    ASSERT_NE(found.best(), nullptr);
    const auto& split = found.best()->split;
    EXPECT_TRUE(split.zero > 0 || split.pipeline > 1 || split.tensor > 1) << split.to_text();
    for (const auto& planned : found.tried) {
      if (planned.split.family() == "ddp") {
        EXPECT_EQ(planned.prediction.fit, Fit::No);
        EXPECT_GT(planned.prediction.short_bytes, 0);
      }
    }
  }
}

// "On slow links pipeline first", between hosts even more so: a pipeline sends least.
TEST(Decision, StagesCrossSlowLinks) {
  PaperModel model;
  model.layers = 16;
  const double state = 16 * model.weights();
  const auto found =
      found_for(model, paper_cluster(2, 2, state / 2.5, 200 * kGiga, 0.05 * kGiga), 64);
  ASSERT_NE(found.best(), nullptr);
  EXPECT_GT(found.best()->split.pipeline, 1) << found.best()->split.to_text();
}

// "The largest layer does not fit": stages cannot help, tensor ranks or stage 3 of ZeRO do.
TEST(Decision, ALayerThatDoesNotFitIsCut) {
  PaperModel model;
  model.layers = 2;
  model.width = 2048;
  model.vocabulary = 1000;
  const double layer = 16 * 12.0 * static_cast<double>(model.width * model.width);
  const auto found = found_for(model, paper_cluster(1, 4, layer * 0.8, 100 * kGiga, 0), 16);
  ASSERT_NE(found.best(), nullptr);
  EXPECT_TRUE(found.best()->split.tensor > 1 || found.best()->split.zero == 3)
      << found.best()->split.to_text();
  for (const auto& [split, prediction, simplicity] : found.tried) {
    if (split.family() == "pipeline" && split.data == 1) {
      EXPECT_EQ(prediction.fit, Fit::No);
    }
  }
}

// 45 GB of fp32 weights on 4 devices of 40 GB: with AdamW 180 GB of state, no; offloaded, yes.
TEST(Decision, OffloadMakesRoomWhereNothingElseDoes) {
  PaperModel model;
  model.layers = 40;
  model.width = 4838;
  model.heads = 1;
  model.vocabulary = 1000;
  model.length = 16;
  EXPECT_NEAR(4 * model.weights(), 45e9, 0.1e9);
  auto cluster = paper_cluster(1, 4, 40 * kGiga, 100 * kGiga, 0);
  Wishes wishes{.num_ranks = 4, .global_batch = 4};
  EXPECT_EQ(search(model.numbers(), cluster, wishes).best(), nullptr);
  wishes.offload = {schedule::Place::Cpu};
  const auto found = search(model.numbers(), cluster, wishes);
  ASSERT_NE(found.best(), nullptr);
  EXPECT_EQ(found.best()->split.optimizer, schedule::Place::Cpu);
}

TEST(Search, TheFrontGivesUpTimeForMemory) {
  PaperModel model;
  const auto found = found_for(model, paper_cluster(1, 8, 100 * kGiga, 10 * kGiga, 0), 64, true);
  const auto front = found.front();
  ASSERT_GT(front.size(), 1U);
  for (size_t n = 1; n < front.size(); ++n) {
    EXPECT_GE(front[n]->prediction.seconds, front[n - 1]->prediction.seconds);
    EXPECT_LT(front[n]->prediction.memory.sum(), front[n - 1]->prediction.memory.sum());
  }
}

TEST(Search, SaysWhereABatchDoesNotDivide) {
  EXPECT_THROW(splits_of({.num_ranks = 3, .global_batch = 0}), UsageError);
}

}  // namespace
}  // namespace convoy::plan
