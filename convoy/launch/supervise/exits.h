#pragma once

#include <sys/types.h>

#include <map>
#include <vector>

#include "convoy/launch/spawn.h"

namespace convoy::launch {

/// Order in which processes end, also of those that end between two calls. On a kernel that does
/// not tell (before 5.3) it reports none.
class Exits {
 public:
  Exits();

  void watch(pid_t process);
  int fd() const { return queue_.get(); }  ///< readable when one has ended
  /// Takes the processes that have ended since the last call.
  std::vector<pid_t> take();

 private:
  Descriptor queue_;
  std::map<pid_t, Descriptor> watched_;
  std::vector<pid_t> ended_;
};

}  // namespace convoy::launch
