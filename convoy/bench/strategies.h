#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "convoy/bench/strategies_table.h"
#include "convoy/options/arguments.h"

namespace convoy::bench {

struct StrategiesOptions {
  std::string config;  ///< TOML file of the run
  /// Values of `parallel.strategy`, or zero1 to zero3, also with two state replicas (-hybrid) or
  /// with all on the disk that the stage allows (-disk); or a `pipeline_schedule`, with as many
  /// stages as ranks, or half as many and two pipelines (-2d); or layers that are shared out: over
  /// all ranks (tp), with the tokens (tp-sp), or in pairs beside others with other rows (dp-tp), as
  /// stages of a pipeline (pp-tp), or both (3d, with two stages and ZeRO 1); or positions of rows,
  /// shared out over all ranks (cp).
  std::vector<std::string> strategies{"single", "dp", "ddp"};
  std::vector<int> ranks{2};
  /// Numbers of micro-batches that a pipeline cuts a step into, each tried; empty: some for each
  /// stage.
  std::vector<int64_t> chunks = {};
  /// Learning rates, each tried with all of the above; empty: the run's own.
  std::vector<std::string> learning_rates = {};
  bool per_device = false;  ///< keeps the batch per device, and adds ddp over a slow link
  /// Options of the run, as --section.name=value, beside the config.
  std::vector<std::string> overrides;
};

struct StrategiesResult {
  std::vector<StrategyRow> rows;
  report::Table table;  ///< table for a person
};

/// Trains the run of `arguments` with each strategy, the same total batch and steps unless
/// `per_device`: a fresh process of this program each, in folders below `output`. `say` hears which
/// one is next, `keep` gets what there is after each. A training that fails has a row
/// that says so, but where the table is the guide's (`per_device`).
/// Throws UsageError on strategies that cannot go, before any does, and Error where all fail.
StrategiesResult compare_strategies(const StrategiesOptions& options,
                                    const options::TrainingArguments& arguments,
                                    const std::filesystem::path& output,
                                    const std::function<void(const std::string&)>& say,
                                    const std::function<void(const StrategiesResult&)>& keep);

}  // namespace convoy::bench
