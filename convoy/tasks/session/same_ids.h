#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "convoy/models/session/session.h"

namespace convoy::tasks {

/// A file that lies beside data, by its name; "" = none.
using BesideData = std::function<std::filesystem::path(const std::string&)>;

/// Beside a Parquet file, a folder of them, or one level up, where windows have theirs.
BesideData beside(const std::filesystem::path& data);

/// No file.
BesideData beside_nothing();

/// Throws FileError where an id of the data stands for another item or category than in the run in
/// `folder`, UsageError where its numbers are scaled otherwise. Ids that only one of them has are
/// no difference; nor is what nothing is known of.
void check_same_ids(const std::filesystem::path& folder, const models::SessionConfig& config,
                    const BesideData& data);

}  // namespace convoy::tasks
