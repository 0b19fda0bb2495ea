#include "convoy/bench/trial.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/bench/presets.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::bench {

std::string ComparedTraining::name() const {
  return fmt::format("{}-{}{}{}{}", strategy, ranks, slow_link ? "-slow" : "",
                     chunks > 0 ? fmt::format("-{}-chunks", chunks) : "",
                     learning_rate.empty() ? "" : "-lr-" + learning_rate);
}

std::map<std::string, std::string> ComparedTraining::options() const {
  return find_preset(strategy)->options(ranks);
}

int ComparedTraining::number(const char* option) const {
  const auto all = options();
  const auto found = all.find(option);
  return found == all.end() ? 1 : std::stoi(found->second);
}

std::string ComparedTraining::schedule() const {
  return find_preset(strategy)->schedule;
}

bool ComparedTraining::has_virtual_stages() const {
  return is_pipeline() && parallel::parse_schedule(schedule())->interleaved;
}

bool ComparedTraining::has_processes() const {
  return find_preset(strategy)->has_processes;
}

namespace {

void check_ranks(const ComparedTraining& trial) {
  const auto preset = *find_preset(trial.strategy);
  if (trial.ranks >= preset.least && trial.ranks % preset.multiple == 0) return;
  fail<UsageError>("bench", "{} on {} ranks: {}; try --ranks {}", trial.strategy, trial.ranks,
                   preset.why, preset.least);
}

/// Returns each trial with each learning rate.
std::vector<ComparedTraining> with_learning_rates(const std::vector<ComparedTraining>& trials,
                                                  const std::vector<std::string>& rates) {
  if (rates.empty()) return trials;
  std::vector<ComparedTraining> out;
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

std::vector<ComparedTraining> trials(const StrategiesOptions& options) {
  std::vector<ComparedTraining> out;
  const auto known = preset_names();
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
