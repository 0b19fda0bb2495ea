#include "convoy/launch/supervise/cleanup_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "convoy/base/temporary_file.h"

namespace convoy::launch {
namespace {

/// Main function of the process. It runs after fork without exec, so it takes no locks.
[[noreturn]] void guard(int alive, const char* folder) {
  ::setsid();  // out of reach of Ctrl-C and of who kills the launcher's group
  ::prctl(PR_SET_NAME, "convoy-cleanup");
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  ::dup2(alive, 0);
  ::closefrom(1);  // holds no pipe or terminal of the launcher open
  char ended_well = 0;
  ssize_t got = 0;
  do {
    got = ::read(0, &ended_well, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) remove_folder(folder);
  ::_exit(0);
}

}  // namespace

CleanupProcess::CleanupProcess(const std::filesystem::path& folder) : alive_(make_pipe()) {
  process_ = ::fork();
  if (process_ == 0) guard(alive_.read.get(), folder.c_str());
}

CleanupProcess::~CleanupProcess() {
  if (process_ <= 0) return;
  // This process holds the read end, too, so that writing raises no SIGPIPE where the child has
  // died.
  [[maybe_unused]] const ssize_t written = ::write(alive_.write.get(), "", 1);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace convoy::launch
