#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "convoy/parallel/run/replica.h"
#include "convoy/planner/search/accuracy.h"
#include "tests/comm/ranks_testing.h"
#include "tests/parallel_torch/hidden_cluster.h"
#include "tests/parallel_torch/paced_links.h"

// Plans for clusters that nobody knew before, and what they take there.
namespace convoy::parallel {
namespace {

TEST(PacedLinks, CarryWhatEveryEngineDoes) {
  for (const auto& [hosts, devices, ranks] : {std::tuple{1, 3, std::vector{0, 1, 2}},
                                              {2, 2, std::vector{0, 1, 2, 3}},
                                              {2, 3, std::vector{0, 2, 4}},
                                              {3, 1, std::vector{0, 1, 2}}}) {
    planner::Cluster cluster{.num_hosts = hosts, .devices_per_host = devices};
    cluster.inside = {1e-4, 1e8};
    cluster.between = {2e-4, 1e8};
    PacedConnector connector(cluster, std::chrono::seconds(20));
    connector.pace();
    comm::run_threads(static_cast<int>(ranks.size()), [&, ranks = ranks](int r) {
      const auto group = connector.connect(ranks[static_cast<size_t>(r)], ranks, "all");
      comm::expect_collectives(group, 1000);
      comm::expect_part_collectives(group);
    });
  }
}

/// A split's step on the ranks of the cluster, in seconds, and whether the machine disturbed it.
struct Measured {
  double seconds = 0;
  int times_late = 0;
};

/// How much time is spent on a cluster.
struct Effort {
  int64_t steps = 3;  ///< of a run, after one that finds nothing under way
  int runs = 4;       ///< at most, while the machine disturbs them
  std::vector<std::set<std::string>> others = {
      {"ddp"}, {"zero 1", "zero 2", "zero 3"}, {"pipeline"}, {"tensor"}};
};

Measured run_once(const HiddenCluster& hidden, const parallel::Parallelism& split, int64_t steps) {
  const auto num_ranks = static_cast<int>(split.num_ranks());
  PacedConnector connector(hidden.cluster, std::chrono::seconds(60));
  std::mutex mutex;
  std::vector<own_time::Time> ends(static_cast<size_t>(steps) + 1);
  std::vector<Kept> kept(static_cast<size_t>(num_ranks));
  const auto train = [&](int rank) {
    const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
      return connector.connect(rank, ranks, name);
    };
    const comm::Groups groups(split.mesh(rank), connect);
    ReplicaOptions options;
    options.parallelism = split;
    if (split.ranks.pipeline > 1) options.counts = hidden.space.facts.counts;
    options.optimizer = std::make_shared<HiddenUpdate>(hidden.update_seconds / hidden.speed(rank));
    Replica replica(hidden.blocks(rank, kept[static_cast<size_t>(rank)]), groups, options);
    replica.start();
    groups.world.barrier("pace");
    connector.pace();
    groups.world.barrier("begin");
    const MicroBatch batch{{{"x", at::ones({split.rows, 1})}}, at::arange(split.rows, at::kLong)};
    const std::vector<MicroBatch> batches(static_cast<size_t>(split.micro_batches), batch);
    for (int64_t step = 0; step <= steps; ++step) {
      replica.step(batches, {.seed = 1, .step = step, .learning_rate = 1e-3, .updates = step}, {});
      const std::lock_guard lock(mutex);
      auto& end = ends[static_cast<size_t>(step)];
      end = std::max(end, own_time::Clock::now());
      if (step == 0) own_time::times_late = 0;
    }
    replica.weights();  // waits for gathers that go on
  };
  comm::run_threads(num_ranks, [&](int rank) {
    try {
      train(rank);
    } catch (const std::exception& error) {
      connector.abort(fmt::format("rank {} failed", rank));
      ADD_FAILURE() << split.to_text() << ", rank " << rank << ": " << error.what();
    }
  });
  const std::chrono::duration<double> all = ends.back() - ends.front();
  return {all.count() / static_cast<double>(steps), own_time::times_late};
}

/// Of some runs the one that the machine disturbed least.
Measured measure(const HiddenCluster& hidden, const parallel::Parallelism& split,
                 const Effort& effort) {
  Measured best{.times_late = std::numeric_limits<int>::max()};
  for (int run = 0; run < effort.runs && best.times_late > 0; ++run) {
    const auto measured = run_once(hidden, split, effort.steps);
    if (measured.times_late < best.times_late) best = measured;
  }
  return best;
}

/// What was planned for a cluster, first, and the fastest of other ways to share out a step.
struct Run {
  std::vector<planner::TimedSplit> trials;
  std::optional<size_t> ddp;

  double regret() const {
    double best = trials[0].measured;
    for (const auto& trial : trials) best = std::min(best, trial.measured);
    return trials[0].measured / best - 1;
  }
};

Run run_on(const HiddenCluster& hidden, const Effort& effort) {
  const auto numbers = hidden.numbers();
  auto space = hidden.space;
  const auto planned = planner::search(numbers, hidden.cluster, space);
  space.all = true;
  const auto all = planner::search(numbers, hidden.cluster, space);
  std::vector<const planner::Candidate*> chosen{planned.best()};
  for (const auto& families : effort.others) {
    const auto* fastest = fastest_of(all, families);
    if (fastest != nullptr) chosen.push_back(fastest);
  }
  Run out;
  for (const auto* it : chosen) {
    const bool ddp = it->split.family() == "ddp";
    if (out.trials.empty() || !(it->split == chosen[0]->split)) {
      const auto took = measure(hidden, it->split, effort);
      out.trials.push_back({it->prediction.seconds, took.seconds});
      fmt::print("  {}: predicted {:.4f} s, measured {:.4f} s{}\n", it->split.to_text(),
                 it->prediction.seconds, took.seconds,
                 took.times_late > 0 ? " (on a busy machine)" : "");
      if (ddp) out.ddp = out.trials.size() - 1;
    } else if (ddp) {
      out.ddp = 0;
    }
  }
  return out;
}

/// Whether ddp is on this cluster what it was drawn to be, as far as a stopwatch tells: to `slack`.
void expect_ddp(DataParallel is, const Run& run, double slack) {
  ASSERT_EQ(run.ddp.has_value(), is != DataParallel::Impossible);
  if (!run.ddp) return;
  const double ddp = run.trials[*run.ddp].measured, chosen = run.trials[0].measured;
  if (is == DataParallel::Beaten) {
    EXPECT_GT((1 + slack) * ddp, chosen);
  } else {
    EXPECT_LT(ddp, (1 + slack) * chosen);
  }
}

constexpr double kPercent = 100;

struct Bounds {
  double median, worst, regret;
};

int64_t given(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

/// So many clusters, ddp impossible, beaten and best in turns.
void expect_plans_hold(int64_t first_seed, int64_t number, const Bounds& bounds,
                       const Effort& effort = {}) {
  constexpr std::pair<DataParallel, const char*> kThirds[]{{DataParallel::Impossible, "impossible"},
                                                           {DataParallel::Beaten, "beaten"},
                                                           {DataParallel::Best, "best"}};
  std::vector<planner::TimedSplit> all;
  std::map<std::string, std::pair<std::vector<planner::TimedSplit>, double>> thirds;  // and regret
  for (int64_t seed = first_seed; seed < first_seed + number; ++seed) {
    const auto [is, name] = kThirds[static_cast<size_t>(seed) % std::size(kThirds)];
    SCOPED_TRACE(fmt::format("seed {}, ddp {}", seed, name));
    const auto hidden = draw_hidden_cluster(static_cast<uint64_t>(seed), is);
    fmt::print("seed {}, ddp {}: {}\n", seed, name, hidden.to_text());
    const auto run = run_on(hidden, effort);
    expect_ddp(is, run, bounds.regret);
    EXPECT_LE(run.regret(), bounds.regret);
    auto& [trials, regret] = thirds[name];
    trials.insert(trials.end(), run.trials.begin(), run.trials.end());
    all.insert(all.end(), run.trials.begin(), run.trials.end());
    regret = std::max(regret, run.regret());
  }
  for (const auto& [name, third] : thirds) {
    fmt::print("ddp {}: {}; regret at most {:.1f} %\n", name,
               planner::errors_of(third.first).to_text(), kPercent * third.second);
  }
  const auto errors = planner::errors_of(all);
  fmt::print("{}\n", errors.to_text());
  EXPECT_LE(errors.median, bounds.median);
  EXPECT_LE(std::abs(errors.worst), bounds.worst);
}

// Beside other tests, which a stopwatch does not know.
TEST(HiddenClusters, APlanTakesWhatWasPredictedAndNothingElseIsFaster) {
  expect_plans_hold(0, 3, {.median = 0.1, .worst = 0.5, .regret = 0.3},
                    {.steps = 1, .runs = 2, .others = {{"ddp"}, {"pipeline"}}});
}

/// Two hosts of one device each, whose link carries the gradients of a step in so many seconds.
HiddenCluster two_hosts(double seconds_of_gradients) {
  constexpr int kBlocks = 8;
  constexpr int64_t kElements = 20'000, kWidth = 2000;
  HiddenCluster out;
  out.cluster.num_hosts = 2;
  out.cluster.device = {"drawn", int64_t{1} << 40, 1e12, 1e12, 1e12};
  out.cluster.inside =
      out.cluster.between = {1e-4, 4.0 * kBlocks * kElements / seconds_of_gradients};
  for (int b = 0; b < kBlocks; ++b) {
    // What a block takes whatever the rows makes small micro-batches slow, which stages need.
    out.model.push_back({.seconds = 3e-4,
                         .seconds_of_row = 1e-3,
                         .elements = kElements,
                         .width = kWidth,
                         .kept_of_row = 100'000,
                         .put_off_of_row = 30'000});
  }
  out.update_seconds = 1e-9;
  out.space = {.num_ranks = 2, .global_batch = 8, .ranks_per_host = 1};
  out.space.base.bucket_bytes = 4 * kElements;
  out.space.facts.counts = counts_of(out);
  return out;
}

TEST(HiddenClusters, SlowLinkChangesThePlanWhichThenWins) {
  const auto fast = two_hosts(0.002), slow = two_hosts(0.4);
  const auto plan_of = [](const HiddenCluster& hidden) {
    const auto found = planner::search(hidden.numbers(), hidden.cluster, hidden.space);
    return found.best()->split;
  };
  const auto of_fast = plan_of(fast), of_slow = plan_of(slow);
  EXPECT_EQ(of_fast.ranks.pipeline, 1) << of_fast.to_text();
  EXPECT_EQ(of_slow.ranks.pipeline, 2) << of_slow.to_text();
  const Effort effort{.steps = 2, .runs = 3};
  const auto seconds = [&](const HiddenCluster& hidden, const parallel::Parallelism& split) {
    const auto measured = measure(hidden, split, effort);
    fmt::print(
        "  {}: predicted {:.4f} s, measured {:.4f} s{}\n", split.to_text(),
        planner::predict(hidden.numbers(), hidden.cluster, hidden.space.facts, split).seconds,
        measured.seconds, measured.times_late > 0 ? " (on a busy machine)" : "");
    return measured.seconds;
  };
  EXPECT_LT(seconds(fast, of_fast), seconds(fast, of_slow));
  EXPECT_LT(seconds(slow, of_slow), seconds(slow, of_fast));
}

/// As docs/planning.md has it: ./dev test --all.
TEST(HiddenClusters, DISABLED_PlansHoldForFiftySeeds) {
  expect_plans_hold(given("CONVOY_SEED", 0), given("CONVOY_CLUSTERS", 50),
                    {.median = 0.02, .worst = 0.2, .regret = 0.03});
}

}  // namespace
}  // namespace convoy::parallel
