#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <set>
#include <thread>

#include "tests/parallel_torch/pipeline_testing.h"
#include "tests/parallel_torch/sleeping.h"

// A step takes as long as its simulation says, and a stage keeps as much.
namespace convoy::parallel {
namespace {

constexpr double kMost = 1.02;   // times as long as simulated, on an idle machine
constexpr double kBusy = 1.15;   // beside other tests; a wrong order of these blocks costs more
constexpr double kApart = 0.03;  // the bytes of a stage from what is simulated

using Seconds = std::chrono::duration<double>;

/// The last millisecond passes awake: a machine that is busy lets one oversleep.
void nap(double seconds) {
  constexpr double kAwake = 1e-3;
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(Seconds(seconds - kAwake));
  while (std::chrono::steady_clock::now() - begin < Seconds(seconds)) std::this_thread::yield();
}

class Sleeper : public nn::Block {
 public:
  Sleeper(const std::string& name, const Naps& naps, bool last, Kept& kept)
      : Block(name),
        naps_(naps),
        last_(last),
        kept_(&kept),
        weight_(declare_matrix(name + ".weight", {1, 1}, nn::Init::zeros())) {}

  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    auto x = in.at("x");
    if (!x.requires_grad()) x = x.detach().requires_grad_(true);
    const auto y = Sleep::apply(x, 1, naps_, weight_, kept_, &nap);
    if (!last_) return {{"x", y}};
    return {{"loss", y.sum()}, {"count", at::ones({}, at::kLong)}};
  }

 private:
  Naps naps_;
  bool last_;
  Kept* kept_;
  nn::ParamPtr weight_;
};

constexpr int kStages = 4;

struct Ratios {
  double simulated = 0;                                   ///< seconds
  double time = std::numeric_limits<double>::infinity();  ///< measured over simulated
  std::vector<double> bytes;                              ///< the same of each stage
};

/// A step of four stages beside its simulation; of some steps the nearest, for the machine may be
/// busy with other things.
Ratios measured_over_simulated(const std::vector<Naps>& all, const std::string& schedule,
                               int64_t micro_batches = 4) {
  constexpr int kSteps = 12;
  const PipelineTrial trial{
      .schedule = schedule, .stages = kStages, .micro_batches = micro_batches};
  auto options = trial.options();
  for (const auto& [forward, input, weight, until_input, until_weight] : all) {
    options.counts.push_back({.forward = forward,
                              .backward = input + weight,
                              .weight = weight,
                              .kept = static_cast<double>(until_input + until_weight),
                              .put_off = static_cast<double>(until_weight)});
  }
  std::vector<Kept> kept(kStages);
  Ratios out{.bytes = std::vector<double>(kStages)};
  std::atomic<double> best = out.time;
  const auto is_near = [&best] { return best < kMost; };
  run_pipeline_ranks(
      kStages, 1, std::chrono::seconds(60), [&](const comm::Groups& groups, int rank) {
        auto& own = kept[static_cast<size_t>(rank)];
        nn::BlockList blocks;
        for (size_t b = 0; b < all.size(); ++b) {
          blocks.push_back(std::make_shared<Sleeper>("block" + std::to_string(b), all[b],
                                                     b + 1 == all.size(), own));
        }
        Replica replica(blocks, groups, options);
        replica.start();
        const auto& timeline = replica.plan().timeline;
        const MicroBatch batch{{{"x", at::ones({1, 1})}}, at::arange(1, at::kLong)};
        for (int64_t step = 0; step < kSteps; ++step) {
          const std::vector<MicroBatch> batches(static_cast<size_t>(micro_batches), batch);
          groups.world.barrier("begin");
          if (is_near()) break;
          const auto begin = std::chrono::steady_clock::now();
          replica.step(batches, input_of_step(step), {});
          const Seconds took = std::chrono::steady_clock::now() - begin;
          if (rank == 0) best = std::min(best.load(), took / Seconds(timeline.length));
        }
        const auto stage = static_cast<size_t>(rank);
        out.bytes[stage] = static_cast<double>(own.peak()) / timeline.peak(stage);
        if (rank == 0) out.simulated = timeline.length;
      });
  out.time = best;
  return out;
}

const std::vector<Naps> kAlike(8);
const std::vector<Naps> kUneven{{0.06, 0.03, 0.02, 9'000'000, 1'000'000},
                                {0.02, 0.03, 0.03},
                                {0.03, 0.06, 0.03, 2'000'000, 5'000'000},
                                {0.03, 0.02, 0.06},
                                {0.02, 0.02, 0.02, 1'000'000, 1'000'000},
                                {0.05, 0.03, 0.06, 8'000'000, 4'000'000},
                                {0.03, 0.03, 0.03},
                                {0.06, 0.06, 0.03, 3'000'000, 6'000'000}};

void expect_near(const Ratios& found, double most) {
  EXPECT_GT(found.time, 0.99);
  EXPECT_LT(found.time, most);
  for (size_t stage = 0; stage < found.bytes.size(); ++stage) {
    EXPECT_NEAR(found.bytes[stage], 1, kApart) << "stage " << stage;
  }
}

TEST(PipelineTime, IsThatOfTheSimulation) {
  for (const auto& [schedule, naps] : {std::pair{"1f1b", kAlike},
                                       {"interleaved", kAlike},
                                       {"zero_bubble", kUneven},
                                       {"auto", kUneven}}) {
    SCOPED_TRACE(schedule);
    expect_near(measured_over_simulated(naps, schedule), kBusy);
  }
}

/// All schedules, as docs/pipeline.md shows them: ./dev test --all.
TEST(PipelineTime, DISABLED_IsThatOfTheSimulationForAllSchedules) {
  fmt::print(
      "| | alike, simulated | measured | uneven, simulated | measured | bytes of each stage |\n"
      "|---|--:|--:|--:|--:|--:|\n");
  for (const auto* entry : parallel::pipeline_schedules()) {
    SCOPED_TRACE(entry->name);
    auto line = fmt::format("| `{}` |", entry->name);
    std::set<std::string> bytes;
    for (const auto& naps : {kAlike, kUneven}) {
      const auto found = measured_over_simulated(naps, entry->name, 8);
      expect_near(found, kMost);
      line += fmt::format(" {:.0f} ms | {:.3f}x |", 1e3 * found.simulated, found.time);
      for (const double ratio : found.bytes) bytes.insert(fmt::format("{:.3f}x", ratio));
    }
    fmt::print("{} {} |\n", line, fmt::join(bytes, ", "));
  }
}

}  // namespace
}  // namespace convoy::parallel
