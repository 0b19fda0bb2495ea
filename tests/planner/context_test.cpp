#include <gtest/gtest.h>

#include <random>

#include "tests/planner/testing.h"

// Positions of rows over context ranks, and tokens over tensor ranks.
namespace convoy::planner {
namespace {

SearchSpace wishes_for(int ranks, int64_t global_batch) {
  SearchSpace out{.num_ranks = ranks, .global_batch = global_batch};
  out.takes_sequence = true;
  out.most_context = 4;
  return out;
}

TEST(ContextSplits, AreOfSingleRowsAndOfModelsThatTakeThem) {
  int64_t contexts = 0, sequences = 0;
  for (const auto& split : splits_of(wishes_for(8, 8))) {
    EXPECT_EQ(split.num_ranks(), 8);
    EXPECT_EQ(split.global_batch(), 8);
    EXPECT_LE(split.ranks.context, 4);
    EXPECT_EQ(split.mesh().degree(parallel::Axis::Context), split.ranks.context);
    EXPECT_TRUE(split.ranks.context == 1 || split.rows == 1) << split.to_text();
    EXPECT_TRUE(!split.sequence_parallel || split.ranks.tensor > 1) << split.to_text();
    contexts += split.ranks.context > 1 ? 1 : 0;
    sequences += split.sequence_parallel ? 1 : 0;
  }
  EXPECT_GT(contexts, 0);
  EXPECT_GT(sequences, 0);
  for (const auto& split : splits_of({.num_ranks = 8, .global_batch = 8})) {
    EXPECT_EQ(split.ranks.context, 1);
    EXPECT_FALSE(split.sequence_parallel);
  }
  const Parallelism split{
      .ranks = {.shard = 2, .context = 2, .tensor = 2}, .zero = 1, .sequence_parallel = true};
  EXPECT_EQ(split.family(), "context x tensor x sequence x zero 1");
  const auto toml = to_toml(split);
  EXPECT_NE(toml.find("context_parallel_size = 2\n"), std::string::npos) << toml;
  EXPECT_NE(toml.find("sequence_parallel = true\n"), std::string::npos) << toml;
}

// One row of many tokens: no other rank has rows of its own to compute.
TEST(ContextSplits, WinWhereARowIsAllThereIs) {
  PaperModel model;
  model.length = 16384;
  const auto found =
      search(model.numbers(), paper_cluster(1, 4, 1000 * kGiga, 100 * kGiga, 0), wishes_for(4, 1));
  EXPECT_EQ(found.best()->split.ranks.context, 4) << found.best()->split.to_text();
  // Over links on which keys and values take longer than products they lose.
  const auto slow =
      search(model.numbers(), paper_cluster(1, 4, 1000 * kGiga, 0.01 * kGiga, 0), wishes_for(4, 1));
  EXPECT_EQ(slow.best()->split.ranks.context, 1) << slow.best()->split.to_text();
}

TEST(ContextSplits, PayForEveryMessage) {
  PaperModel model;
  model.length = 4096;
  const Parallelism split{.ranks = {.context = 4}};
  const auto fast = paper_cluster(1, 4, 1000 * kGiga, 1e6 * kGiga, 0);
  auto slow = fast;
  slow.inside.seconds = 0.01;
  const auto seconds = [&](const Cluster& cluster) {
    return predict(model.numbers(), cluster, {}, split).computing;
  };
  const auto messages = static_cast<double>(model.layers * (3 + 7));
  EXPECT_NEAR(seconds(slow) - seconds(fast), messages * (0.01 - 5e-6), 1e-6);
}

TEST(SequenceSplits, KeepLessAndSumWhatIsWhole) {
  PaperModel model;
  auto numbers = model.numbers();
  // A norm, which each tensor rank has all of.
  constexpr int64_t kNorm = 1000;
  numbers.model.params.push_back({"norm", {kNorm}});
  numbers.model.blocks[1].params.push_back(static_cast<int64_t>(numbers.model.params.size()) - 1);
  const Parallelism split{.ranks = {.tensor = 4}, .rows = 8};
  auto shared = split;
  shared.sequence_parallel = true;
  const auto cluster = paper_cluster(1, 4, 1000 * kGiga, 10 * kGiga, 0);
  const auto plain = predict(numbers, cluster, {}, split),
             tokens = predict(numbers, cluster, {}, shared);
  EXPECT_LT(tokens.memory.activations, 0.85 * static_cast<double>(plain.memory.activations));
  EXPECT_NEAR(tokens.held_up - plain.held_up,
              GroupTimes(cluster, split.mesh(), parallel::Axis::Tensor).all_reduce(4 * kNorm),
              1e-9);
  // What does not fit otherwise is trained with shares of the tokens.
  auto tight = cluster;
  tight.device.memory_bytes = (plain.memory.sum() + tokens.memory.sum()) / 2;
  EXPECT_EQ(predict(numbers, tight, {}, split).fit, Fit::No);
  EXPECT_NE(predict(numbers, tight, {}, shared).fit, Fit::No);
}

TEST(ContextSplits, AreFoundAsByBruteForce) {
  std::mt19937 random(5);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  int contexts = 0, sequences = 0;
  for (int n = 0; n < 60; ++n) {
    PaperModel model;
    model.layers = 2 + static_cast<int64_t>(random() % 3);
    model.width = 128 << random() % 2;
    model.length = 256 << random() % 5;
    auto cluster = paper_cluster(1 + static_cast<int>(random() % 2), 4, draw(0.05, 2) * kGiga,
                                 draw(1, 1000) * kGiga, draw(0.1, 100) * kGiga);
    cluster.beside = random() % 2;
    auto space = wishes_for(cluster.num_devices(), 1 << random() % 3);
    if (cluster.num_hosts > 1) space.ranks_per_host = cluster.devices_per_host;
    const auto bounded = search(model.numbers(), cluster, space);
    space.all = true;
    const auto all = search(model.numbers(), cluster, space);
    ASSERT_EQ(bounded.best() == nullptr, all.best() == nullptr) << n;
    if (all.best() == nullptr) continue;
    const auto& split = all.best()->split;
    EXPECT_EQ(bounded.best()->split, split) << n << ": " << bounded.best()->split.to_text();
    contexts += split.ranks.context > 1 ? 1 : 0;
    sequences += split.sequence_parallel ? 1 : 0;
  }
  EXPECT_GT(contexts, 5);
  EXPECT_GT(sequences, 0);
}

}  // namespace
}  // namespace convoy::planner
