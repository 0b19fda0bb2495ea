#pragma once

#include <filesystem>
#include <vector>

#include "convoy/base/options.h"

namespace convoy::tasks {

/// Folders of the run that a training continues, by `source` (resume_from_checkpoint) and `output`;
/// empty: it begins anew.
std::vector<std::filesystem::path> folders_to_resume(const std::filesystem::path& source,
                                                     const std::filesystem::path& output);

/// Throws UsageError where the options in `table` continue a run of another model.task.
void check_resumed_task(const OptionTable& table);

}  // namespace convoy::tasks
