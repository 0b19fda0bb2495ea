#pragma once

#include <filesystem>
#include <utility>

#include "convoy/base/temporary_file.h"
#include "convoy/launch/supervise/cleanup_process.h"

namespace convoy::launch {

/// A folder that goes with this, and with the process if that is killed, or leaves on a stop
/// signal (see leave_on_stop_signals).
class TemporaryFolder {
 public:
  /// Takes a folder that is there.
  explicit TemporaryFolder(std::filesystem::path path)
      : path_(std::move(path)), on_signal_(path_), cleanup_(path_) {}
  ~TemporaryFolder() { remove_folder(path_.c_str()); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  TemporaryFile on_signal_;
  CleanupProcess cleanup_;
};

}  // namespace convoy::launch
