#pragma once

#include <sys/types.h>

#include <filesystem>

#include "convoy/launch/spawn.h"

namespace convoy::launch {

/// A tiny process that outlives the launcher by an instant: should the launcher be killed, it
/// removes the launcher's private folder.
class CleanupProcess {
 public:
  explicit CleanupProcess(const std::filesystem::path& folder);
  ~CleanupProcess();
  CleanupProcess(const CleanupProcess&) = delete;
  CleanupProcess& operator=(const CleanupProcess&) = delete;

 private:
  PipeEnds alive_;
  pid_t process_ = -1;
};

}  // namespace convoy::launch
