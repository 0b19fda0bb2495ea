#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

// Options and states that a run keeps in its folder and its checkpoints.
namespace convoy::cli {

/// Folder with the state of a run after a step, and the options that it had: run.toml.
struct KeptRun {
  std::filesystem::path folder;  ///< empty: there is none
  int64_t step = 0;              ///< that the state is of; 0: not known

  std::filesystem::path options() const { return folder / "run.toml"; }
};

/// Returns the state that tells with which options a run trained `step`: the first one on the line
/// that it follows that is not before the step. Where it ended before it saved one, the last.
KeptRun kept_of_step(const std::filesystem::path& run, int64_t step);

/// Returns the options that a run had last; "": it saved nothing.
std::filesystem::path newest_options(const std::filesystem::path& run);

/// Returns the last checkpoint before a step, on the line that the run follows; empty: there is
/// none.
std::filesystem::path checkpoint_before(const std::filesystem::path& run, int64_t step);

/// Returns the checkpoint of the last step of the run in `run`, whose model is there; none: it has
/// no such.
std::optional<std::filesystem::path> checkpoint_of_end(const std::filesystem::path& run);

/// Weights and moments of another run, with which one began.
struct BeganWith {
  std::filesystem::path weights;  ///< a run's folder; empty: with its own
  std::filesystem::path moments;  ///< a checkpoint; empty: with none
};

/// Returns the window of a run over windows that `run`, whose state is `kept`, began with. Throws
/// FileError where that is gone, unless a checkpoint has all, so that nothing `is_needed`.
BeganWith began_with(const std::filesystem::path& run, const KeptRun& kept, bool is_needed);

}  // namespace convoy::cli
