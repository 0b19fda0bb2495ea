#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/base/progress.h"

namespace convoy::checkpoint {

/// What reading every tensor of a folder showed.
struct Verification {
  std::filesystem::path folder;
  bool has_manifest = false;
  int64_t num_tensors = 0, num_bytes = 0;  ///< that were read
  /// Tensors that are not as they were written, missing or left over, by name, and files that
  /// cannot be read. Without a manifest: also tensors that hold numbers which are not finite.
  std::vector<std::string> wrong;
};

/// Reads all tensors in `folder` and compares them with its manifest. Throws nothing for what is
/// wrong there.
Verification verify(const std::filesystem::path& folder, const ProgressFn& progress = {});

Json to_json(const Verification& found);

}  // namespace convoy::checkpoint
