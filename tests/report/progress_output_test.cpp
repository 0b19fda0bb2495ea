#include "convoy/report/progress_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

namespace convoy::report {
namespace {

constexpr int kLines = 20'000;

struct Pipe {
  std::array<int, 2> ends{};
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::_Exit(3);
  }
  int read_end() const { return ends[0]; }
  int write_end() const { return ends[1]; }
};

/// In a process of its own, whose standard output nobody reads before it has said that it is done.
[[noreturn]] void print_lines(const Pipe& output, const Pipe& done) {
  ::dup2(output.write_end(), STDOUT_FILENO);
  ::close(output.write_end());
  for (int n = 0; n < kLines; ++n) show_progress("step " + std::to_string(n) + "\n");
  finish_progress(std::chrono::milliseconds(10));  // in vain
  show_progress("another stream\n", stderr);       // is not held up
  if (::write(done.write_end(), "d", 1) != 1) std::_Exit(1);
  finish_progress();
  std::_Exit(0);
}

/// Whether all lines come, though they are read late.
[[noreturn]] void read_late() {
  const Pipe output, done;
  const int child = ::fork();
  if (child == 0) print_lines(output, done);
  ::close(output.write_end());
  pollfd said{done.read_end(), POLLIN, 0};
  constexpr int kMilliseconds = 20'000;
  if (::poll(&said, 1, kMilliseconds) != 1) {
    ::kill(child, SIGKILL);
    std::_Exit(1);
  }
  std::string all, expected;
  std::array<char, 4096> part{};
  for (ssize_t size = 0; (size = ::read(output.read_end(), part.data(), part.size())) > 0;) {
    all.append(part.data(), static_cast<size_t>(size));
  }
  for (int n = 0; n < kLines; ++n) expected += "step " + std::to_string(n) + "\n";
  int status = 0;
  ::waitpid(child, &status, 0);
  std::_Exit(all == expected && status == 0 ? 0 : 2);
}

TEST(ProgressOutput, WaitsBesideTheRunWhereAReaderPauses) {
  EXPECT_EXIT(read_late(), testing::ExitedWithCode(0), "another stream");
}

}  // namespace
}  // namespace convoy::report
