#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "convoy/models/session/session.h"

namespace convoy::tasks {

/// Function that finds a file beside data by its name; "" = none.
using BesideData = std::function<std::filesystem::path(const std::string&)>;

/// Finds files beside a Parquet file, in a folder of them, or one level up, where windows have
/// theirs.
BesideData beside(const std::filesystem::path& data);

/// Finds no file.
BesideData beside_nothing();

/// Checks that ids and numbers of the data mean the same as in the run in `folder`. Throws
/// FileError where an id stands for another item or category, and UsageError where numbers are
/// scaled otherwise. Ids that only one of them has are no difference; nor is anything of which
/// nothing is known.
void check_same_ids(const std::filesystem::path& folder, const models::SessionConfig& config,
                    const BesideData& data);

}  // namespace convoy::tasks
