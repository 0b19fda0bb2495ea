#include "convoy/planner/time/offload.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "convoy/planner/search/decision.h"
#include "convoy/planner/time/bounds.h"
#include "tests/planner/testing.h"

namespace convoy::planner {
namespace {

using parallel::Place;

bool lies_at(const Parallelism& split, Place optimizer, Place gradients, Place parameters) {
  return split.offload.optimizer == optimizer && split.offload.gradients == gradients &&
         split.offload.parameters == parameters;
}

TEST(Offload, EveryPartOfTheStateMayLieElsewhere) {
  SearchSpace space{.num_ranks = 2,
                    .global_batch = 2,
                    .most_rows = 1,
                    .takes_recompute = false,
                    .offload = {Place::Cpu, Place::Disk}};
  space.base.offload.folder = "disk";
  const auto splits = splits_of(space);
  const auto number = [&](const auto& is) {
    return std::count_if(splits.begin(), splits.end(), is);
  };
  const auto zero = [](int stage) {
    return [stage](const Parallelism& s) { return s.ranks.data() == 2 && s.zero == stage; };
  };
  EXPECT_EQ(number(zero(0)), 3);  // the optimizer's state
  EXPECT_EQ(number(zero(1)), 3);
  EXPECT_EQ(number(zero(2)), 9);   // and gradients
  EXPECT_EQ(number(zero(3)), 27);  // and weights
  EXPECT_EQ(number([](const Parallelism& s) { return s.ranks.tensor == 2; }),
            27);  // shards of one rank
  const auto pipelines = number([](const Parallelism& s) { return s.ranks.pipeline == 2; });
  EXPECT_EQ(pipelines, 3 * number([](const Parallelism& s) {
                         return s.ranks.pipeline == 2 && !s.offload.any();
                       }));
  const auto first = std::find_if(splits.begin(), splits.end(),
                                  [](const Parallelism& s) { return s.offload.any(); });
  EXPECT_TRUE(
      std::all_of(first, splits.end(), [](const Parallelism& s) { return s.offload.any(); }));
}

TEST(Offload, IsWrittenIntoTheRun) {
  const Parallelism split{.zero = 3,
                          .offload = {.optimizer = Place::Disk, .parameters = Place::Cpu}};
  EXPECT_EQ(split.to_text(),
            "1 rank, zero 3, weights offloaded to cpu, optimizer offloaded to disk, 1 x 1 row");
  const auto toml = to_toml(split);
  for (const char* line : {"offload_optimizer = \"disk\"", "offload_gradients = \"none\"",
                           "offload_parameters = \"cpu\"", "zero = 3"}) {
    EXPECT_NE(toml.find(line), std::string::npos) << toml;
  }
}

/// A split with all in one place, of a device alone.
Parallelism all_in(Place place) {
  return {.rows = 1,
          .micro_batches = 4,
          .zero = 3,
          .offload = {.optimizer = place, .gradients = place, .parameters = place}};
}

TEST(Offload, TakesWhatLinksTake) {
  const PaperModel model;
  const auto numbers = model.numbers();
  auto cluster = paper_cluster(1, 1, 100 * kGiga, 0, 0);
  const auto with_small_buckets = [](Parallelism split) {
    split.bucket_bytes = 1 << 20;
    return split;
  };
  const auto on_disk = with_small_buckets(all_in(Place::Disk));
  const auto seconds = [&](double host, double disk) {
    cluster.host_bytes_per_second = host;
    cluster.disk_bytes_per_second = disk;
    return predict(numbers, cluster, {}, on_disk).seconds;
  };
  const auto alone = with_small_buckets({.rows = 1, .micro_batches = 4});
  const double here = predict(numbers, cluster, {}, alone).seconds;
  EXPECT_LT(seconds(1e15, 1e15), here * 1.001) << "no time to bring it";
  // Weights are read for each forward and backward and written once, gradients written for each
  // micro-batch and read, the optimizer's state read and written once.
  const double moved = 4 * model.weights() * (4 * 2 + 1 + 1 + 4 + 4 + 2 * 2);
  const double slow = seconds(1e9, 1e9);
  EXPECT_NEAR(slow / (moved / 1e9), 1, 0.2);
  EXPECT_DOUBLE_EQ(seconds(1e9, 1e15), slow) << "through the host's memory";
  EXPECT_DOUBLE_EQ(seconds(1e15, 1e9), slow);
  EXPECT_LE(least_seconds(numbers, cluster, {}, on_disk), slow);
}

TEST(Offload, RanksShareTheDiskOfTheirHost) {
  const PaperModel model;
  auto cluster = paper_cluster(2, 4, 100 * kGiga, 1e15, 1e15);
  cluster.disk_bytes_per_second = 0.5 * kGiga;
  const auto seconds = [&](int data, int64_t zero) {
    return predict(model.numbers(), cluster, {},
                   {.ranks = {.shard = data},
                    .micro_batches = 4,
                    .zero = zero,
                    .offload = {.optimizer = Place::Disk}})
        .seconds;
  };
  EXPECT_GT(seconds(4, 0), 3.5 * seconds(1, 0));
  EXPECT_LT(seconds(4, 1), 1.5 * seconds(1, 0)) << "each has a quarter of it";
  EXPECT_LT(seconds(8, 1), 0.7 * seconds(4, 1)) << "two disks";
}

TEST(Offload, HostsHaveOnlySoMuchRoom) {
  const PaperModel model;
  const auto numbers = model.numbers();
  auto cluster = paper_cluster(1, 2, 100 * kGiga, 100 * kGiga, 0);
  const Parallelism split{.ranks = {.shard = 2}, .zero = 1, .offload = {.optimizer = Place::Cpu}};
  const double bytes = 8 * model.weights();
  cluster.host_memory_bytes = static_cast<int64_t>(1.1 * bytes);
  EXPECT_NE(predict(numbers, cluster, {}, split).fit, Fit::No);
  cluster.host_memory_bytes = static_cast<int64_t>(0.9 * bytes);
  const Candidate short_of{split, predict(numbers, cluster, {}, split)};
  EXPECT_EQ(short_of.prediction.fit, Fit::No);
  EXPECT_NEAR(static_cast<double>(short_of.prediction.short_bytes), 0.1 * bytes, 0.02 * bytes);
  EXPECT_NE(verdict(short_of, nullptr).find("short in the host's memory"), std::string::npos);
  auto on_disk = split;
  on_disk.offload.optimizer = Place::Disk;
  EXPECT_NE(predict(numbers, cluster, {}, on_disk).fit, Fit::No);
  cluster.disk_bytes = 1 << 20;
  const Candidate full{on_disk, predict(numbers, cluster, {}, on_disk)};
  EXPECT_NE(verdict(full, nullptr).find("short on the host's disk"), std::string::npos);
}

// One device trains what is many times its size: buckets of it are there for a while.
TEST(Offload, OneDeviceTrainsWhatIsLargerThanIt) {
  PaperModel model;
  model.layers = 32;
  const auto numbers = model.numbers();
  auto cluster = paper_cluster(1, 1, 10 * model.weights(), 0, 0);  // of 16
  SearchSpace space{.num_ranks = 1, .global_batch = 4, .offload = {Place::Cpu}};
  space.base.bucket_bytes = 8 << 20;
  const auto found = search(numbers, cluster, space);
  ASSERT_NE(found.best(), nullptr);
  EXPECT_TRUE(found.best()->split.offload.any());
  cluster.device.memory_bytes = static_cast<int64_t>(3.5 * model.weights());
  const auto little = search(numbers, cluster, space);
  ASSERT_NE(little.best(), nullptr);
  EXPECT_TRUE(lies_at(little.best()->split, Place::Cpu, Place::Cpu, Place::Cpu))
      << little.best()->split.to_text();
  EXPECT_EQ(little.best()->split.zero, 3);
  EXPECT_GT(little.best()->prediction.seconds, found.best()->prediction.seconds);
}

// What makes room for larger micro-batches may be faster than what fits without.
TEST(Offload, IsTriedBesideRecomputation) {
  PaperModel model;
  model.layers = 12;
  const auto numbers = model.numbers();
  auto cluster = paper_cluster(1, 1, 0, 0, 0);
  cluster.host_bytes_per_second = 1e15;  // for nothing
  const Parallelism whole{.rows = 8, .micro_batches = 1};
  const auto use = predict(numbers, cluster, {}, whole).memory;
  cluster.device.memory_bytes = use.sum() - use.optimizer / 4;
  SearchSpace space{.num_ranks = 1, .global_batch = 8, .offload = {Place::Cpu}};
  // As many products, whatever the rows: the first that fits is row by row on the device.
  auto numbers_of_rows = numbers;
  numbers_of_rows.blocks = [numbers](const BlockShare& share) {
    auto out = numbers.blocks(share);
    for (auto& block : out) block.forward_seconds *= share.rows < 8 ? 2 : 1;
    return out;
  };
  const auto found = search(numbers_of_rows, cluster, space);
  ASSERT_NE(found.best(), nullptr);
  EXPECT_TRUE(found.best()->split.offload.any()) << found.best()->split.to_text();
  const auto told = decision(numbers_of_rows, cluster, space, found);
  EXPECT_NE(told.at(2).find("With all of the state on the devices a step takes"), std::string::npos)
      << told.at(2);
  cluster.host_bytes_per_second = 1e8;
  EXPECT_FALSE(search(numbers_of_rows, cluster, space).best()->split.offload.any());
}

}  // namespace
}  // namespace convoy::planner
