#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string_view>

#include "cli/commands.h"
#include "convoy/tuning/short_spins.h"

namespace {

constexpr rlim_t kLeastStack = 1 << 20;

[[noreturn, gnu::no_sanitize("address", "undefined", "thread")]] void leave(
    std::string_view message) {
  [[maybe_unused]] const auto written = ::write(2, message.data(), message.size());
  ::_exit(1);
}

/// Checks the working folder, the stack and the descriptors before any library starts. The math
/// library crashes in a deleted folder while it is loaded, libraries end the program silently with
/// a small stack, and some open files of their own.
[[gnu::no_sanitize("address", "undefined", "thread")]] void look(int, char**, char**) {
  char here[PATH_MAX];
  if (::getcwd(here, sizeof here) == nullptr && errno == ENOENT) {
    leave("convoy: error: [cli] the working folder was deleted; try cd to another\n");
  }
  // Fills closed descriptors 0 to 2, which files opened later would get: messages would go into
  // those files.
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF && ::open("/dev/null", O_RDWR) != fd) {
      leave("convoy: error: [cli] descriptors 0 to 2 are closed, and /dev/null cannot be opened\n");
    }
  }
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < kLeastStack) {
    leave("convoy: error: [cli] the stack may not grow to 1 MiB; try ulimit -s 8192\n");
  }
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const looked_first)(int, char**,
                                                                         char**) = look;

}  // namespace

/// Whether the typed command computes. Other commands have no threads that wait, for whose settings
/// the program would start again.
extern "C" [[gnu::no_sanitize("address", "undefined", "thread")]] bool convoy_may_start_again(
    int argc, char** argv) {
  return argc >= 2 && convoy::cli::find_command(argv[1]).computes;
}
