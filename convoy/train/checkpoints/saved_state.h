#pragma once

#include <filesystem>
#include <string>

#include "convoy/checkpoint/reason.h"
#include "convoy/train/state.h"

// Internal to the component: what the state in a checkpoint tells of it.
namespace convoy::train {

/// State in a folder. Throws FileError.
TrainerState read_state(const std::filesystem::path& folder);

/// State in a checkpoint whose small files are as its manifest says. Throws FileError.
TrainerState read_checked_state(const std::filesystem::path& checkpoint);

/// Whether the weights in `folder` are those that `state` had after its last step.
bool holds_step_of(const TrainerState& state, const std::filesystem::path& folder);

/// Whether the weights in `folder` are those of the best evaluation of `state`: a branch of the
/// run, or another run, may have saved the same step there since.
bool holds_best_of(const TrainerState& state, const std::filesystem::path& folder);

// Of a FileError, for sentences of this component.
using checkpoint::reason_of;

}  // namespace convoy::train
