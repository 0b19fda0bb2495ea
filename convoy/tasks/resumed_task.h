#pragma once

#include <filesystem>
#include <vector>

#include "convoy/base/options.h"

namespace convoy::tasks {

/// Folders of the run that one goes on with which resumes from `source` (resume_from_checkpoint)
/// into `output`; empty: it begins anew.
std::vector<std::filesystem::path> folders_to_resume(const std::filesystem::path& source,
                                                     const std::filesystem::path& output);

/// Throws UsageError where the run of `table` goes on with one of another model.task.
void check_resumed_task(const OptionTable& table);

}  // namespace convoy::tasks
