#pragma once

#include <sys/types.h>

namespace convoy::launch {

/// To be called in a child of the process `launcher` that is about to become a program; parts it in
/// two. It returns in the one that becomes the program; the other, its reaper, ends the way the
/// program ends. Whatever the program starts, daemons too, becomes the reaper's when its parent is
/// gone: the reaper kills them all when the program has ended, and everything when the launcher
/// has. False, with errno set, when there can be no second process. Calls only what is safe after
/// fork.
bool part_from_reaper(pid_t launcher);

}  // namespace convoy::launch
