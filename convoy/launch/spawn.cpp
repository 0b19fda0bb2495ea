#include "convoy/launch/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/supervise/reaper.h"

namespace convoy::launch {
namespace {

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(candidate, ignored) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  fail<UsageError>(
      "launch",
      "cannot start '{}': no such program in PATH; try ./{} if it is in this folder, or "
      "its full path",
      name, name);
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& overrides,
                                            const std::set<std::string>& unset) {
  std::vector<std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (!overrides.contains(name) && !unset.contains(name)) merged.push_back(text);
  }
  for (const auto& [name, value] : overrides) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

/// Message of a child through a pipe: that it has started, then why it could not run the program.
struct Word {
  pid_t pid = -1;
  int reason = 0;
};

/// Restores SIGCHLD's default, which a parent may have set to ignore: the exit status of a child is
/// lost while it is ignored.
void hear_of_children() {
  struct sigaction action{};
  ::sigaction(SIGCHLD, nullptr, &action);
  if (action.sa_handler != SIG_IGN && (action.sa_flags & SA_NOCLDWAIT) == 0) return;
  if (action.sa_handler == SIG_IGN) action.sa_handler = SIG_DFL;
  action.sa_flags &= ~SA_NOCLDWAIT;
  ::sigaction(SIGCHLD, &action, nullptr);
}

/// Code of the child between fork and exec: only calls that are safe there. Returns on failure.
void become(const char* program, char* const* argv, char* const* env, const char* folder,
            const Command& command, const cpu_set_t& cores, int tell) {
  ::setpgid(0, 0);
  const Word here{::getpid(), 0};
  if (::write(tell, &here, sizeof here) != sizeof here) return;
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!command.cores.empty() && ::sched_setaffinity(0, sizeof cores, &cores) != 0) return;
  if (command.stdin_fd >= 0 && ::dup2(command.stdin_fd, 0) < 0) return;
  if (command.stdout_fd >= 0 && ::dup2(command.stdout_fd, 1) < 0) return;
  if (command.stderr_fd >= 0 && ::dup2(command.stderr_fd, 2) < 0) return;
  if (folder[0] != '\0' && ::chdir(folder) != 0) return;
  ::execve(program, argv, env);
}

}  // namespace

void Descriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

PipeEnds make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    fail<CommunicationError>("launch", "cannot make a pipe: {}; try a higher `ulimit -n`",
                             std::strerror(errno));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Process spawn(const Command& command) {
  if (command.argv.empty() || command.argv.front().empty()) {
    fail<UsageError>("launch", "no program to start; expected its name and arguments");
  }
  const std::string program = find_program(command.argv.front());
  const std::string folder = command.working_directory.string();
  std::vector<std::string> argv_texts = command.argv;
  std::vector<std::string> env_texts = merged_environment(command.env, command.unset);
  const std::vector<char*> argv = pointers(argv_texts);
  const std::vector<char*> env = pointers(env_texts);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core : command.cores) CPU_SET(core, &cores);
  PipeEnds words = make_pipe();
  const pid_t launcher = ::getpid();
  hear_of_children();

  const pid_t child = ::fork();
  if (child == 0) {
    const int tell = words.write.get();
    const bool parted = part_from_reaper(launcher);
    if (parted) {
      become(program.c_str(), argv.data(), env.data(), folder.c_str(), command, cores, tell);
    }
    const Word why{parted ? ::getpid() : -1, errno};
    [[maybe_unused]] ssize_t written = ::write(tell, &why, sizeof why);
    ::_exit(127);
  }
  Word last;
  if (child < 0) last.reason = errno;
  words.write.reset();
  while (child > 0) {
    const ssize_t got = ::read(words.read.get(), &last, sizeof last);
    if (got != sizeof last && !(got < 0 && errno == EINTR)) break;
  }
  if (last.pid > 0 && last.reason == 0) return {last.pid, child};
  if (child > 0) ::waitpid(child, nullptr, 0);
  if (last.pid < 0) {
    fail<CommunicationError>(
        "launch", "cannot start '{}': {}; try fewer ranks{}", program,
        last.reason == 0 ? "it was killed at once" : std::strerror(last.reason),
        last.reason == EAGAIN ? ", or a higher `ulimit -u`" : "");
  }
  fail<UsageError>("launch", "cannot start '{}': {}; expected a program that can be run{}", program,
                   std::strerror(last.reason),
                   folder.empty() ? "" : fmt::format(" from the folder {}", folder));
}

}  // namespace convoy::launch
