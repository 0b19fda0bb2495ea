#include "convoy/tuning/short_spins.h"

#include <unistd.h>

#include <cstring>

// Threads of OpenMP that wait for each other spin for milliseconds by default. On a machine that
// is busy with other work the one they wait for may be off its core for just as long, and a step
// takes up to ninety times its time. libgomp reads how long it may spin when it is loaded, which is
// before main(): so the program starts itself once more with that said, before any library is set
// up. Arrow's own jemalloc, which nobody uses, would start a thread and complain where it cannot.
namespace {

constexpr const char* kSpin = "GOMP_SPINCOUNT";
constexpr char kShort[] = "GOMP_SPINCOUNT=1000";  // some 10 us
constexpr const char* kArrow = "JE_ARROW_MALLOC_CONF";
constexpr char kNoThread[] = "JE_ARROW_MALLOC_CONF=background_thread:false";
constexpr int kMostVariables = 4096;

bool names(const char* variable, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

/// Whether this process is the dynamic linker, which was given the program to start.
bool is_linker(const char* program) {
  const char* slash = std::strrchr(program, '/');
  const char* name = slash == nullptr ? program : slash + 1;
  return std::strncmp(name, "ld-", 3) == 0 || std::strncmp(name, "ld.so", 5) == 0;
}

[[gnu::no_sanitize("address", "undefined", "thread")]] void spin_briefly(int argc, char** argv,
                                                                         char** variables) {
  if (convoy_may_start_again != nullptr && !convoy_may_start_again(argc, argv)) return;
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
  if (is_linker(program)) return;
  ::execve(program, argv, more);  // where that fails all goes on as it was
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const spun_briefly)(int, char**,
                                                                         char**) = spin_briefly;

}  // namespace

/// Name by which the linker takes this file into a program.
extern "C" const char convoy_spins_briefly = 1;
