#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/base/progress.h"

namespace convoy::checkpoint {

/// Result of reading every tensor of a folder.
struct Verification {
  std::filesystem::path folder;
  bool has_manifest = false;
  int64_t num_tensors = 0, num_bytes = 0;  ///< that were read
  /// Tensors that are not as they were written, and tensors and files that are missing, left over
  /// or cannot be read. Without a manifest: also tensors that hold numbers which are not finite.
  std::vector<std::string> wrong;
  bool vanished = false;  ///< removed or replaced meanwhile: nothing else is wrong
};

/// Reads all tensors in `folder` and compares them with its manifest. Throws nothing for what is
/// wrong there.
Verification verify(const std::filesystem::path& folder, const ProgressFn& progress = {});

Json to_json(const Verification& found);

}  // namespace convoy::checkpoint
