#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/program.h"
#include "convoy/base/json.h"

// Folders of a run over windows, as an earlier start left them.
namespace convoy::cli {

inline constexpr const char* kResults = "results_over_time.json";
inline constexpr const char* kPicture = "results_over_time.svg";
/// File in a window's folder and its checkpoints: it names the window whose weights training began
/// with ("" = its own) and has their checksum.
inline constexpr const char* kWindow = "window.json";
inline constexpr const char* kBeganWith = "began_with";
inline constexpr const char* kWeightsSum = "weights_sum";

/// One object for each window that was done with: trained_on, evaluated_on, metrics.
using Results = std::vector<Json>;

/// Start of a run over windows: new, resumed or started again.
struct Beginning {
  bool asked = false;     ///< resume_from_checkpoint
  bool is_again = false;  ///< the ranks were started again
  std::string job_id;

  bool resumes() const { return asked || is_again; }
  /// Whether there is something of this run in a window's folder: what a job that was started again
  /// finds of another one is to be overwritten.
  bool goes_on(const std::filesystem::path& folder) const;
};

/// Results of an earlier start, as far as they are the first of `windows`; without the last ones
/// whose models are gone, which are to be restored.
Results earlier_results(const std::filesystem::path& base,
                        const std::vector<tasks::Window>& windows);

/// Text of kWindow for a window that begins with the model in `before`; empty: with its own.
std::string window_note(const std::filesystem::path& before);

/// Throws UsageError where `folder` holds a window that began with other weights than those in
/// `before`. Windows of before the checksum, and those whose earlier model is gone, pass.
void check_weights_sum(const std::filesystem::path& folder, const std::filesystem::path& before);

/// Looks at the windows' folders before the first is trained: what is in them is this run's, or may
/// go. A job that was started again has looked. Throws UsageError.
void check_folders(const std::filesystem::path& base, const std::vector<tasks::Window>& windows,
                   const Beginning& beginning, const Configured& configured);

/// Sentences about windows that are done with: models that are gone, and options of this start that
/// hold for the others alone.
std::vector<std::string> notes_of_done(const std::filesystem::path& base,
                                       const std::vector<tasks::Window>& windows, size_t num_done,
                                       const OptionTable& table);

}  // namespace convoy::cli
