#pragma once

#include <filesystem>

#include "convoy/base/options.h"
#include "convoy/formats/schema.h"
#include "convoy/tasks/session/session_arguments.h"

namespace convoy::tasks {

/// Largest default of data.max_length from a schema alone, since attention grows with the square.
inline constexpr int64_t kMostByDefault = 512;

/// Length of the longest list of items that a schema tells of, at most kMostByDefault; 0 = unknown.
int64_t length_in(const formats::Schema& schema);

/// Sets data.max_length where neither a file nor the command line does: to what the checkpoint has
/// that the run resumes from, else the earlier run whose weights it begins with, else by the
/// schema. Where none of them tells, and with parity = transformers4rec, it stays 20.
void settle_max_length(const SessionArguments& arguments, OptionTable& table);

/// Whether results of the run in `folder` leave out what a person has seen. For an older form of
/// run: as was decided for its data, false where that is unknown.
bool excludes_seen_in(const std::filesystem::path& folder);

/// Sets train.exclude_seen = auto to what the checkpoint has that the run resumes from, else the
/// earlier run whose weights it begins with, else what was decided for the data
/// (prepare::decided_to_exclude). With parity = transformers4rec, which ranks all items, to false.
void settle_exclude_seen(const SessionArguments& arguments, OptionTable& table);

}  // namespace convoy::tasks
