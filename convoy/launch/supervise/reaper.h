#pragma once

#include <sys/types.h>

namespace convoy::launch {

/// Parts this process in two: a child of `launcher` calls it before it becomes a program. It
/// returns in the process that becomes the program; the other one, its reaper, ends the way the
/// program ends. Processes that the program starts, daemons too, become the reaper's when their
/// parents are gone. The reaper kills them all when the program has ended, and everything when the
/// launcher has. Returns false, with errno set, when no second process can be made. Calls only what
/// is safe after fork.
bool part_from_reaper(pid_t launcher);

}  // namespace convoy::launch
