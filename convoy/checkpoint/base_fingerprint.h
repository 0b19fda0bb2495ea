#pragma once

#include <filesystem>
#include <string>

namespace convoy::checkpoint {

/// File beside an adapter that holds the fingerprint of the model which it was trained with.
inline constexpr const char* kBaseFingerprint = "base_fingerprint.json";

/// Text of that file for the model in `folder`: a hash of the names, the shapes and some elements
/// of each weight, rounded to bf16, so that a copy in bf16 has the same. Reads a few pages of each
/// weight. Throws FileError on weights that cannot be read.
std::string base_fingerprint(const std::filesystem::path& folder);

/// Throws FileError where the adapter in `adapter` has a fingerprint and the model in `base` has
/// another one.
void check_fingerprint(const std::filesystem::path& base, const std::filesystem::path& adapter);

}  // namespace convoy::checkpoint
