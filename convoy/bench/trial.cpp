#include "convoy/bench/trial.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::bench {

namespace {

/// Behind the name of a schedule: two pipelines that share out the data.
constexpr std::string_view kTwoPipelines = "-2d";

}  // namespace

std::string Trial::name() const {
  return fmt::format("{}-{}{}{}{}", strategy, ranks, slow_link ? "-slow" : "",
                     chunks > 0 ? fmt::format("-{}-chunks", chunks) : "",
                     learning_rate.empty() ? "" : "-lr-" + learning_rate);
}

int Trial::zero() const {
  if (strategy == k3d) return 1;
  return strategy.starts_with("zero") && !is_pipeline() ? strategy[4] - '0' : 0;
}

bool Trial::is_hybrid() const {
  return strategy.ends_with("-hybrid");
}

bool Trial::is_offloaded() const {
  return strategy.ends_with("-disk");
}

std::string Trial::schedule() const {
  std::string_view name = strategy;
  if (is_2d()) name.remove_suffix(kTwoPipelines.size());
  const auto all = parallel::pipeline_schedule_names();
  return std::find(all.begin(), all.end(), name) == all.end() ? "" : std::string(name);
}

bool Trial::has_virtual_stages() const {
  return is_pipeline() && parallel::parse_schedule(schedule())->interleaved;
}

bool Trial::is_2d() const {
  return strategy.ends_with(kTwoPipelines);
}

int Trial::num_tensor_ranks() const {
  if (strategy == kTensor || strategy == kSequence) return ranks;
  return strategy == kDataTensor || strategy == kPipelineTensor || strategy == k3d ? 2 : 1;
}

int Trial::num_stages() const {
  if (is_pipeline()) return ranks / (is_2d() ? 2 : 1);
  return strategy == kPipelineTensor ? ranks / 2 : strategy == k3d ? 2 : 1;
}

bool Trial::has_processes() const {
  return strategy == "ddp" || zero() > 0 || num_stages() > 1 || num_tensor_ranks() > 1 ||
         num_context_ranks() > 1;
}

namespace {

void check_ranks(const Trial& trial) {
  const auto check = [&](bool concerned, int multiple, int least, const char* why) {
    if (!concerned || (trial.ranks >= least && trial.ranks % multiple == 0)) return;
    fail<UsageError>("bench", "{} on {} ranks: {}; try --ranks {}", trial.strategy, trial.ranks,
                     why, least);
  };
  check(trial.is_2d(), 2, 4, "two pipelines need an even number of ranks, 4 at least");
  check(trial.is_hybrid(), 2, 4, "two state replicas need an even number of ranks, 4 at least");
  check(trial.strategy == kDataTensor || trial.strategy == kPipelineTensor, 2, 4,
        "pairs of tensor ranks need an even number of ranks, 4 at least");
  check(trial.strategy == k3d, 4, 8,
        "2 stages x 2 tensor ranks and others with other rows need 8 ranks, 12 or more");
}

/// Each trial with each learning rate.
std::vector<Trial> with_learning_rates(const std::vector<Trial>& trials,
                                       const std::vector<std::string>& rates) {
  if (rates.empty()) return trials;
  std::vector<Trial> out;
  for (const auto& rate : rates) {
    double value = 0;
    if (!parse_number(rate, value) || value <= 0 || !std::isfinite(value)) {
      fail<UsageError>("bench", "--learning_rates has '{}'; expected numbers above 0", rate);
    }
    for (auto trial : trials) {
      trial.learning_rate = rate;
      out.push_back(std::move(trial));
    }
  }
  return out;
}

}  // namespace

std::vector<Trial> trials(const StrategiesOptions& options) {
  std::vector<Trial> out;
  std::vector<std::string> known{
      "single",       "dp",           "ddp",          "zero1",         "zero2",      "zero3",
      "zero1-hybrid", "zero2-hybrid", "zero3-hybrid", "zero1-disk",    "zero2-disk", "zero3-disk",
      kTensor,        kSequence,      kDataTensor,    kPipelineTensor, k3d,          kContext};
  for (const auto& name : parallel::pipeline_schedule_names()) {
    known.push_back(name);
    known.push_back(fmt::format("{}{}", name, kTwoPipelines));
  }
  for (const auto& strategy : options.strategies) {
    if (std::find(known.begin(), known.end(), strategy) == known.end()) {
      fail<UsageError>("bench", "--strategies has '{}'; expected {}", strategy, join(known));
    }
    if (strategy == "single") {
      out.push_back({strategy, 1});
      continue;
    }
    for (int ranks : options.ranks) {
      if (ranks < 1) fail<UsageError>("bench", "--ranks has {}; expected at least 1", ranks);
      if (ranks > 1) out.push_back({strategy, ranks});
      if (ranks > 1) check_ranks(out.back());
      if (ranks > 1 && strategy == "ddp" && options.per_device) {
        out.push_back({strategy, ranks, /*slow_link=*/true});
      }
      if (ranks > 1 && out.back().is_pipeline() && !options.chunks.empty()) {
        auto trial = std::move(out.back());
        out.pop_back();
        for (const int64_t chunks : options.chunks) {
          if (chunks < 1) fail<UsageError>("bench", "--chunks has {}; expected at least 1", chunks);
          trial.chunks = chunks;
          out.push_back(trial);
        }
      }
    }
  }
  if (options.per_device && !options.learning_rates.empty()) {
    fail<UsageError>("bench",
                     "--per-device lays out one learning rate; try --learning_rates without it");
  }
  if (out.empty())
    fail<UsageError>("bench", "nothing to train; try --strategies single,ddp --ranks 2");
  if (!options.chunks.empty() &&
      std::none_of(out.begin(), out.end(), [](const auto& trial) { return trial.is_pipeline(); })) {
    fail<UsageError>("bench",
                     "--chunks are the micro-batches of a pipeline, and --strategies has none; try "
                     "--strategies single,{}",
                     join(parallel::pipeline_schedule_names(), ","));
  }
  return with_learning_rates(out, options.learning_rates);
}

}  // namespace convoy::bench
