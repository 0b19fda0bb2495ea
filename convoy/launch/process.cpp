#include "convoy/launch/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/launch/spawn.h"

namespace convoy::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// Appends the content of the pipe; closes the pipe at its end.
void drain(Descriptor& pipe, std::string& into) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(pipe.get(), buffer.data(), buffer.size());
  if (got > 0) {
    into.append(buffer.data(), static_cast<size_t>(got));
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    pipe.reset();
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  PipeEnds out;
  PipeEnds err;
  Command command{.argv = argv, .env = options.env, .working_directory = options.working_directory};
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  command.stdin_fd = nothing.get();
  if (options.capture) {
    out = make_pipe();
    err = make_pipe();
    command.stdout_fd = out.write.get();
    command.stderr_fd = err.write.get();
    ::fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(err.read.get(), F_SETFL, O_NONBLOCK);
  }

  ProcessResult result;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const Process child = spawn(command);
  out.write.reset();
  err.write.reset();

  // A process that outlives the program may hold the pipes: the program's own end decides.
  int status = W_EXITCODE(1, 0);  // should nobody know
  rusage usage{};
  for (bool ended = false; !ended;) {
    std::array<pollfd, 2> watched = {pollfd{out.read.get(), POLLIN, 0},
                                     pollfd{err.read.get(), POLLIN, 0}};
    ::poll(watched.data(), watched.size(), 10);
    const pid_t waited = ::wait4(child.reaper, &status, WNOHANG, &usage);
    ended = waited == child.reaper || (waited < 0 && errno != EINTR);
    for (size_t before = std::string::npos; before != result.out.size() + result.err.size();) {
      before = result.out.size() + result.err.size();
      if (out.read.get() >= 0) drain(out.read, result.out);
      if (err.read.get() >= 0) drain(err.read, result.err);
    }
    if (!ended && !result.timed_out && options.timeout_seconds > 0 &&
        elapsed() > options.timeout_seconds) {
      result.timed_out = true;
      ::kill(-child.pid, SIGKILL);
    }
  }
  result.seconds = elapsed();
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.exit_code = result.signal != 0 ? 128 + result.signal : WEXITSTATUS(status);
  result.max_rss_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
  return result;
}

std::vector<std::string> this_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    fail<UsageError>("launch", "cannot find this program: {}; try to mount /proc", error.message());
  return {path.string()};
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

}  // namespace convoy::launch
