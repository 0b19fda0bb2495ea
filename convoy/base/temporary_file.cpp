#include "convoy/base/temporary_file.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace convoy {

namespace {

// A handler allocates nothing. Who takes a name out of its place has it alone.
std::array<std::atomic<char*>, 64> names{};
static_assert(std::atomic<char*>::is_always_lock_free);

}  // namespace

TemporaryFile::TemporaryFile(const std::filesystem::path& path) {
  char* name = ::strdup(path.c_str());
  for (auto& place : names) {
    char* nobody = nullptr;
    if (name == nullptr || !place.compare_exchange_strong(nobody, name)) continue;
    place_ = &place;
    return;
  }
  std::free(name);
}

TemporaryFile::~TemporaryFile() {
  if (place_ != nullptr) std::free(place_->exchange(nullptr));
}

void remove_temporary_files() {
  const int before = errno;
  for (auto& place : names) {
    if (const char* name = place.exchange(nullptr)) ::unlink(name);
  }
  errno = before;
}

}  // namespace convoy
