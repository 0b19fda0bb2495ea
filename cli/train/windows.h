#pragma once

#include <vector>

#include "cli/program.h"
#include "convoy/job/job.h"

namespace convoy::cli {

/// Throws UsageError where options do not go with windows.
void check_windows(const Configured& configured, const std::vector<tasks::Window>& windows);

/// Trains on one window after the other, each in a folder of its own in output.dir, with a schedule
/// and an optimizer of its own and the weights of the one before, and evaluates it on the next
/// (Transformers4Rec's fit_and_evaluate). Writes `results_over_time.json` and `.svg` after each.
/// With resume_from_checkpoint it goes on in the window that was not done with. Returns the exit
/// code.
int train_windows(Configured& configured, const std::vector<tasks::Window>& windows,
                  const job::Job& job);

}  // namespace convoy::cli
