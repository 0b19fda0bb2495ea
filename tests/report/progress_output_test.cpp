#include "convoy/report/progress_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

namespace convoy::report {
namespace {

constexpr int kLines = 20'000;

/// In a process of its own, whose standard output is a pipe that nobody reads for now.
[[noreturn]] void print_lines(int pipe) {
  ::dup2(pipe, STDOUT_FILENO);
  const auto began = std::chrono::steady_clock::now();
  for (int n = 0; n < kLines; ++n) show_progress("step " + std::to_string(n) + "\n");
  const auto took = std::chrono::steady_clock::now() - began;
  if (took > std::chrono::seconds(20)) std::_Exit(1);
  finish_progress(std::chrono::milliseconds(10));  // in vain
  show_progress("another stream\n", stderr);       // is not held up
  finish_progress();
  std::_Exit(0);
}

/// Whether all lines come, though they are read late.
[[noreturn]] void read_late() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::_Exit(3);
  if (::fork() == 0) print_lines(ends[1]);
  ::close(ends[1]);
  ::sleep(1);  // all lines are printed by now
  std::string all, expected;
  std::array<char, 4096> part{};
  for (ssize_t size = 0; (size = ::read(ends[0], part.data(), part.size())) > 0;) {
    all.append(part.data(), static_cast<size_t>(size));
  }
  for (int n = 0; n < kLines; ++n) expected += "step " + std::to_string(n) + "\n";
  std::_Exit(all == expected ? 0 : 2);
}

TEST(ProgressOutput, WaitsBesideTheRunWhereAReaderPauses) {
  EXPECT_EXIT(read_late(), testing::ExitedWithCode(0), "another stream");
}

}  // namespace
}  // namespace convoy::report
