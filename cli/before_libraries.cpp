#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>

#include "cli/commands.h"

namespace {

constexpr rlim_t kLeastStack = 1 << 20;

[[noreturn, gnu::no_sanitize("address", "undefined", "thread")]] void leave(
    std::string_view message) {
  [[maybe_unused]] const auto written = ::write(2, message.data(), message.size());
  ::_exit(1);
}

/// In a folder that was deleted the math library ends the program with a riddle while it is loaded,
/// with a small stack the libraries end it without a word, and some open files of their own, so
/// this looks before any library starts.
[[gnu::no_sanitize("address", "undefined", "thread")]] void look(int, char**, char**) {
  char here[PATH_MAX];
  if (::getcwd(here, sizeof here) == nullptr && errno == ENOENT) {
    leave("convoy: error: [cli] the working folder was deleted; try cd to another\n");
  }
  // What is opened first would get their numbers, and what is printed go there.
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

// Threads of OpenMP that wait for each other spin for milliseconds by default. On a machine that
// is busy with other work the one they wait for may be off its core for just as long, and a step
// takes up to thirty times its time. libgomp reads how long it may spin when it is loaded, which is
// before main(): so the program starts itself once more with that said, before any library is set
// up. Arrow's own jemalloc, which nobody uses, would start a thread and complain where it cannot.
constexpr const char* kSpin = "GOMP_SPINCOUNT";
constexpr char kShort[] = "GOMP_SPINCOUNT=1000";  // some 10 us
constexpr const char* kArrow = "JE_ARROW_MALLOC_CONF";
constexpr char kNoThread[] = "JE_ARROW_MALLOC_CONF=background_thread:false";
constexpr int kMostVariables = 4096;

bool names(const char* variable, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

[[gnu::no_sanitize("address", "undefined", "thread")]] void spin_less(int argc, char** argv,
                                                                      char** variables) {
  if (argc < 2 || !convoy::cli::find_command(argv[1]).computes) return;
  char* more[kMostVariables + 3];
  int count = 0;
  bool waits = false, arrow = false;  // somebody has said it
  for (; variables[count] != nullptr; ++count) {
    if (count == kMostVariables) return;
    waits |= names(variables[count], kSpin) || names(variables[count], "OMP_WAIT_POLICY");
    arrow |= names(variables[count], kArrow);
    more[count] = variables[count];
  }
  if (waits && arrow) return;
  if (!waits) more[count++] = const_cast<char*>(kShort);
  if (!arrow) more[count++] = const_cast<char*>(kNoThread);
  more[count] = nullptr;
  char program[4096];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return;
  program[length] = 0;
  ::execve(program, argv, more);  // where that fails all goes on as it was
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const looked_first)(int, char**,
                                                                         char**) = look;

[[gnu::section(".preinit_array"), gnu::used]] void (*const spun_less)(int, char**,
                                                                      char**) = spin_less;

}  // namespace
