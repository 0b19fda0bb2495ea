#include "convoy/launch/guardian.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

namespace convoy::launch {
namespace {

constexpr size_t kMostGroups = 8192;

/// The guardian's life. Runs after fork without exec, so it calls nothing that takes a lock.
[[noreturn]] void guard(int socket, const char* folder) {
  static std::array<pid_t, kMostGroups> groups;
  size_t num_groups = 0;
  bool ended_well = false;
  ::setsid();  // out of reach of Ctrl-C and of who kills the launcher's group
  ::prctl(PR_SET_NAME, "convoy-guardian");
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  ::dup2(socket, 0);
  ::close_range(1, ~0U, 0);  // holds no pipe or terminal of the launcher open
  while (true) {
    pid_t message = 0;
    const ssize_t got = ::read(0, &message, sizeof message);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof message) break;
    ended_well |= message == 0;
    if (message > 0 && num_groups < kMostGroups) {
      groups[num_groups++] = message;
    } else if (message < 0) {
      const auto end = groups.begin() + num_groups;
      num_groups = std::remove(groups.begin(), end, -message) - groups.begin();
    }
  }
  for (size_t i = 0; i < num_groups; ++i) ::kill(-groups[i], SIGKILL);
  if (!ended_well) ::execl("/bin/rm", "rm", "-rf", "--", folder, static_cast<char*>(nullptr));
  ::_exit(0);
}

}  // namespace

Guardian::Guardian(const std::filesystem::path& folder) {
  // A socket, because writing to one whose reader is gone can be made to raise no signal.
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const Descriptor theirs(ends[0]);
  socket_ = Descriptor(ends[1]);
  process_ = ::fork();
  if (process_ == 0) guard(theirs.get(), folder.c_str());
}

Guardian::~Guardian() {
  tell(0);
  socket_.reset();
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

void Guardian::release(pid_t group) {
  tell(-group);
}

void Guardian::tell(pid_t message) {
  // Without a guardian (no process could be made) the ranks themselves still die with the launcher.
  if (process_ <= 0) return;
  [[maybe_unused]] const ssize_t written =
      ::send(socket_.get(), &message, sizeof message, MSG_NOSIGNAL);
}

}  // namespace convoy::launch
