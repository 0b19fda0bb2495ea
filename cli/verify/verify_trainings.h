#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan_settings.h"
#include "cli/program.h"
#include "convoy/conformance/difference.h"
#include "convoy/conformance/layouts.h"
#include "convoy/conformance/training_record.h"
#include "convoy/launch/process.h"

namespace convoy::cli {

/// Short trainings of one run in fresh processes of this host, each in another layout.
class VerifyTrainings {
 public:
  struct Options {
    int64_t steps = 3;
    int64_t threads = 1;  ///< intra-op threads of each rank, equal in all layouts
    Settings cut = {};    ///< options that make the model small
  };

  VerifyTrainings(Configured& configured, Options options);

  /// Outcome of one training.
  struct Outcome {
    conformance::TrainingRecord record;
    std::string failure;      ///< first line of its error; "": it ended well
    bool refused = false;     ///< the failure is a UsageError: this layout does not suit the run
    bool by_machine = false;  ///< whether it says nothing of the layout: a full disk, or a kill
  };

  /// Trains on one device.
  Outcome one_device(const parallel::Parallelism& split) const;
  /// Trains on one device in fp32. Returns how far a training of one device in bf16 is from that;
  /// none where the run does not train in fp32, as with an optimizer of bf16 weights.
  std::optional<conformance::Difference> rounding_of_bf16(
      const parallel::Parallelism& split, const conformance::TrainingRecord& in_bf16) const;
  /// Trains with the run's own options on so many ranks; 1: in one process.
  Outcome as_configured(int num_ranks) const;
  Outcome in_layout(const conformance::TrainingLayout& layout) const;

  /// Writes the weights that the run begins with as a model's folder, `to`. Returns the first line
  /// of an error; "": it is there.
  std::string write_start(const parallel::Parallelism& split,
                          const std::filesystem::path& to) const;
  /// Settings of one_device(), for a training in this process that writes to `run`.
  Settings settings_of_record(const parallel::Parallelism& split,
                              const std::filesystem::path& run) const;

 private:
  Outcome train(Settings settings, int num_ranks, const launch::ProcessOptions& process = {}) const;
  Outcome train_reference(Settings settings) const;
  /// Options that give the run this layout, whatever its own is.
  Settings settings_of_layout(const conformance::TrainingLayout& layout) const;

  Configured& configured_;
  Options options_;
  TrialFolder folder_;
};

/// Record of a training with settings_of_record() that wrote to `run`. Throws FileError where it
/// lacks a step.
conformance::TrainingRecord record_of(const std::filesystem::path& run, int64_t steps);

/// Options that cut a model to so many layers, for a run that begins with weights of its own; those
/// that are below it stay.
Settings cut_layers(const OptionTable& table, int64_t layers);

}  // namespace convoy::cli
