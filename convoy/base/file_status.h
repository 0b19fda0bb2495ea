#pragma once

#include <sys/stat.h>

namespace convoy {

/// Whether a file is as it was, by its size and the time when it was last written to.
inline bool is_as_before(const struct stat& before, const struct stat& now) {
  return now.st_size == before.st_size && now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
         now.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
}

}  // namespace convoy
