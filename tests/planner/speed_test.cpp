#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>

#include "convoy/planner/time/bounds.h"
#include "tests/planner/testing.h"

// How long a search takes of one core.
namespace convoy::planner {
namespace {

/// Seconds to plan 80 blocks of 70B parameters on hosts of eight devices of 80 GB.
double seconds_to_plan(int num_ranks, int64_t global_batch = 1024) {
  PaperModel model;
  model.layers = 78;
  model.width = 8192;
  model.vocabulary = 32000;
  model.length = 2048;
  model.heads = 64;
  model.flops = 4e14;
  model.bytes_per_weight = 2;
  auto cluster = paper_cluster(num_ranks / 8, 8, 80 * kGiga, 450 * kGiga, 50 * kGiga);
  SearchSpace space{.num_ranks = num_ranks,
                    .global_batch = global_batch,
                    .ranks_per_host = 8,
                    .most_stages = model.layers + 2,
                    .most_tensor = model.heads,
                    .offload = {parallel::Place::Cpu}};
  space.facts.low_precision = true;
  auto numbers = model.numbers();
  numbers.accumulate_seconds = 0;   // GPUs add gradients as they come
  const auto began = std::clock();  // other tests run beside this one
  const auto found = search(numbers, cluster, space);
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  EXPECT_NE(found.best(), nullptr);
  if (found.best() == nullptr) return seconds;
  const auto& best = *found.best();
  EXPECT_GE(best.prediction.seconds, least_seconds(numbers, cluster, space.facts, best.split));
  fmt::print("{} ranks: {:.2f} s for {} splits, {} left out; {} takes {:.3f} s\n", num_ranks,
             seconds, found.tried.size(), found.num_bounded, found.best()->split.to_text(),
             found.best()->prediction.seconds);
  return seconds;
}

// On a quiet core a quarter of that, and more where other tests share its caches.
TEST(Speed, EightyBlocksOnManyRanks) {
  EXPECT_LT(seconds_to_plan(64), 4);
  EXPECT_LT(seconds_to_plan(1024), 6);
  EXPECT_LT(seconds_to_plan(100'000, 100'000), 30);
}

}  // namespace
}  // namespace convoy::planner
