#pragma once

#include <sys/types.h>

#include "convoy/launch/spawn.h"

namespace convoy::launch {

/// A tiny process that outlives the launcher by an instant: should the launcher be killed, it kills
/// what the ranks have started (the ranks themselves the kernel kills).
class Guardian {
 public:
  Guardian();
  ~Guardian();  ///< kills the groups still watched
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void watch(pid_t group);
  void release(pid_t group);

 private:
  void tell(pid_t message);

  Descriptor socket_;
  pid_t process_ = -1;
};

}  // namespace convoy::launch
