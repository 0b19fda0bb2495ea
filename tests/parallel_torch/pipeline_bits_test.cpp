#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <tuple>

#include "tests/parallel_torch/pipeline_testing.h"

// A pipeline trains to the bits of one device that takes the same micro-batches one by one.
namespace convoy::parallel {
namespace {

using Trial = PipelineTrial;
using parallel::Placement;

/// Trains trials, and what each is compared with once.
class Comparison {
 public:
  void expect_equal(const Trial& trial) {
    SCOPED_TRACE(trial.name());
    const auto alone = trial.on_one_device();
    const auto key = fmt::format("{}, {} layers", alone.name(), alone.layers);
    const auto found = wholes_.find(key);
    const auto& whole = found == wholes_.end()
                            ? wholes_.emplace(key, train_pipeline(alone)).first->second
                            : found->second;
    const auto stages = train_pipeline(trial);
    parallel::expect_equal(trial, stages, whole);
    exact_ += !stages.ties_cross_stages;
  }
  int exact() const { return exact_; }

 private:
  std::map<std::string, PipelineOutcome> wholes_;
  int exact_ = 0;
};

TEST(PipelineBits, AreThoseOfOneDevice) {
  Comparison all;
  for (const auto& trial :
       {Trial{.schedule = "gpipe"}, Trial{}, Trial{.dtype = at::kBFloat16},
        Trial{.schedule = "gpipe", .recomputes = true}, Trial{.recomputes = true},
        Trial{.schedule = "gpipe", .data = 2}, Trial{.data = 2, .zero = 1},
        Trial{.schedule = "gpipe", .data = 2, .zero = 2}, Trial{.data = 2, .zero = 3},
        Trial{.schedule = "gpipe", .data = 2, .zero = 3, .dtype = at::kBFloat16},
        Trial{.model = "t5"}, Trial{.data = 2, .zero = 3, .recomputes = true, .model = "t5"},
        Trial{.stages = 3, .micro_batches = 5}, Trial{.stages = 4, .micro_batches = 3},
        Trial{.schedule = "gpipe", .stages = 4, .micro_batches = 4},
        Trial{.schedule = "interleaved", .micro_batches = 4},
        Trial{.schedule = "interleaved", .micro_batches = 6, .recomputes = true},
        Trial{.schedule = "interleaved", .data = 2, .zero = 1, .model = "t5"},
        Trial{.schedule = "interleaved", .data = 2, .zero = 3}}) {
    all.expect_equal(trial);
  }
  EXPECT_EQ(all.exact(), 19);
}

TEST(PipelineBits, AreThoseOfOneDeviceWithBackwardsInHalves) {
  Comparison all;
  for (const auto placement : {Placement::Loop, Placement::V}) {
    for (const std::string schedule : {"zero_bubble", "auto"}) {
      for (auto trial : {Trial{.data = 2, .zero = 1}, Trial{.dtype = at::kBFloat16},
                         Trial{.recomputes = true}, Trial{.data = 2, .zero = 2},
                         Trial{.data = 2, .zero = 3, .model = "t5"}, Trial{.max_norm = 1e-2},
                         Trial{.dtype = at::kBFloat16, .recomputes = true, .max_norm = 1e-2}}) {
        trial.schedule = schedule;
        trial.placement = placement;
        trial.micro_batches = 5;
        all.expect_equal(trial);
      }
    }
  }
  EXPECT_EQ(all.exact(), 28);
}

TEST(PipelineBits, TiedTablesAreKeptInStep) {
  Comparison all;
  for (const auto& trial :
       {Trial{.tied = true}, Trial{.stages = 3, .micro_batches = 4, .tied = true},
        Trial{.data = 2, .tied = true}, Trial{.data = 2, .zero = 1, .tied = true},
        Trial{.data = 2, .zero = 3, .tied = true}, Trial{.dtype = at::kBFloat16, .tied = true},
        Trial{.stages = 3, .model = "t5", .tied = true},
        Trial{.schedule = "interleaved", .micro_batches = 4, .tied = true},
        Trial{.schedule = "zero_bubble",
              .micro_batches = 4,
              .tied = true,
              .placement = Placement::Loop}}) {
    all.expect_equal(trial);
  }
  EXPECT_EQ(all.exact(), 0);
}

// The first stage holds both ends.
TEST(PipelineBits, ATiedTableInAVHasThoseOfOneDevice) {
  Comparison all;
  for (const std::string schedule : {"interleaved", "zero_bubble"}) {
    for (auto trial : {Trial{.model = "gpt2"}, Trial{.dtype = at::kBFloat16, .model = "gpt2"},
                       Trial{.data = 2, .zero = 1, .model = "gpt2"}, Trial{.model = "bert"},
                       Trial{.stages = 3, .model = "session", .layers = 4},
                       Trial{.recomputes = true, .model = "t5"}}) {
      trial.schedule = schedule;
      trial.placement = Placement::V;
      trial.tied = true;
      trial.micro_batches = 5;
      all.expect_equal(trial);
    }
  }
  EXPECT_EQ(all.exact(), 12);
}

/// A schedule, and how it lays virtual stages.
using Way = std::pair<std::string, std::optional<Placement>>;

std::vector<Way> all_ways() {
  std::vector<Way> out;
  for (const auto* entry : parallel::pipeline_schedules()) {
    if (!entry->interleaved) out.emplace_back(entry->name, std::nullopt);
    if (!entry->interleaved) continue;
    for (const auto placement : {Placement::Loop, Placement::V}) {
      out.emplace_back(entry->name, placement);
    }
  }
  return out;
}

/// Models of eight blocks and more: four stages of two.
std::vector<Trial> all_models() {
  std::vector<Trial> out;
  for (const bool tied : {false, true}) {
    for (const std::string model : {"gpt2", "llama", "bert", "t5"}) {
      out.push_back({.model = model, .tied = tied, .layers = model == "t5" ? 2 : 6});
    }
  }
  out.push_back({.model = "session", .tied = true, .layers = 6});
  out.push_back({.model = "own", .layers = 6});
  return out;
}

Trial grid_trial(const Trial& model, const Way& way, int stages, int64_t micro_batches, int data) {
  auto out = model;
  std::tie(out.schedule, out.placement) = way;
  out.stages = stages;
  out.micro_batches = micro_batches;
  out.data = data;
  return out;
}

constexpr std::array<int64_t, 3> kMicroBatches{1, 4, 7};

/// Every way with every model, some number of each.
TEST(PipelineBits, AreThoseOfOneDeviceInASampleOfTheGrid) {
  Comparison all;
  size_t which = 0;
  for (const auto& model : all_models()) {
    for (const auto& way : all_ways()) {
      const auto at = which++;
      all.expect_equal(grid_trial(model, way, 2 + static_cast<int>(at % 3),
                                  kMicroBatches[(at / 3 + at) % 3],
                                  1 + static_cast<int>(at / 9 % 2)));
    }
  }
}

/// Twenty steps of everything, a model at a time: ./dev test --all.
class PipelineGrid : public testing::TestWithParam<size_t> {};

TEST_P(PipelineGrid, DISABLED_HasTheBitsOfOneDevice) {
  auto model = all_models().at(GetParam());
  // With one micro-batch a session model learns so wildly that rounding doubles with each step: of
  // its tied table, whose sums are taken in another order, few steps can be compared.
  // From the twelfth step on, a unit of the tied T5 is at the kink of its ReLU: one device whose
  // learning rate is 1e-7 higher takes the other side, too, and has these stages' digits.
  model.steps = model.model == "session" ? 6 : model.model == "t5" && model.tied ? 10 : 20;
  Comparison all;
  for (const auto& way : all_ways()) {
    for (const int stages : {2, 3, 4}) {
      for (const int64_t micro_batches : kMicroBatches) {
        for (const int data : {1, 2}) {
          const auto trial = grid_trial(model, way, stages, micro_batches, data);
          all.expect_equal(trial);
          if (micro_batches != 4) continue;
          auto other = trial;
          other.dtype = at::kBFloat16;
          other.recomputes = true;
          other.zero = data - 1;
          other.max_norm = 1e-2;
          all.expect_equal(other);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PipelineGrid, testing::Range<size_t>(0, all_models().size()),
                         [](const auto& info) {
                           const auto model = all_models()[info.param];
                           return (model.tied ? "Tied" : "") + model.model;
                         });

}  // namespace
}  // namespace convoy::parallel
