#pragma once

#include <sys/types.h>

#include <filesystem>

#include "convoy/launch/spawn.h"

namespace convoy::launch {

/// A tiny process that outlives the launcher by an instant: should the launcher be killed, it kills
/// what the ranks have started (the ranks themselves the kernel kills) and removes the launcher's
/// private folder.
class Guardian {
 public:
  explicit Guardian(const std::filesystem::path& folder);
  ~Guardian();  ///< kills the groups still watched
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// Where a process that is to be watched, with its group, sends its id before it runs: told
  /// afterwards the launcher might be gone before it can. -1 when there is no guardian.
  int fd() const { return process_ > 0 ? socket_.get() : -1; }
  void release(pid_t group);

 private:
  void tell(pid_t message);

  Descriptor socket_;
  pid_t process_ = -1;
};

}  // namespace convoy::launch
