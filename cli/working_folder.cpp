#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string_view>

namespace {

/// In a folder that was deleted the math library ends the program with a riddle while it is loaded,
/// so this looks before any library starts.
[[gnu::no_sanitize("address", "undefined", "thread")]] void check_working_folder(int, char**,
                                                                                 char**) {
  char here[PATH_MAX];
  if (::getcwd(here, sizeof here) != nullptr || errno != ENOENT) return;
  constexpr std::string_view kMessage =
      "convoy: error: [cli] the working folder was deleted; try cd to another\n";
  [[maybe_unused]] const auto written = ::write(2, kMessage.data(), kMessage.size());
  ::_exit(1);
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const checked_first)(int, char**, char**) = check_working_folder;

}  // namespace
