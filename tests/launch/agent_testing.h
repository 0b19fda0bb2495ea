#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/launch/supervise/agent.h"
#include "tests/launch/processes_testing.h"

namespace convoy::launch {

namespace fs = std::filesystem;

/// A launcher whose ranks run a shell script.
class Agent : public ::testing::Test {
 protected:
  Agent() : folder_(unique_folder("agent-test")) {
    options_.num_ranks = 3;
    options_.grace_seconds = 0.5;
    options_.say = [this](std::string_view text) { said_ += text; };
    options_.on_failure = [this](const FailureReport& report) { failure_ = report; };
  }
  ~Agent() override { fs::remove_all(folder_); }

  /// Runs a shell script as every rank; $D is a folder of the test.
  int run(const std::string& script) {
    options_.command = {"/bin/sh", "-c", "D=" + folder_.string() + "\n" + script};
    const auto start = std::chrono::steady_clock::now();
    const int code = run_ranks(options_);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return code;
  }

  void expect_said(const std::string& part) const {
    EXPECT_NE(said_.find(part), std::string::npos) << said_ << "\nlacks: " << part;
  }

  std::string content(const std::string& name) const { return read_file(folder_ / name); }

  fs::path folder_;
  LaunchOptions options_;
  std::string said_;
  std::optional<FailureReport> failure_;
  double seconds_ = 0;
};

inline pid_t wait_for_pid(const fs::path& path) {
  for (int i = 0; i < 250; ++i) {
    std::ifstream file(path);
    pid_t pid = 0;
    if (file >> pid) return pid;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return 0;
}

/// Runs the agent in a process of its own, after `before` there, and returns that process.
inline pid_t agent_in_a_child(
    LaunchOptions options, const std::string& script, const std::function<void()>& before = [] {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGINT, SIG_DFL);  // a test in the background has it ignored
    before();
    options.say = nullptr;
    options.on_failure = nullptr;
    options.command = {"/bin/sh", "-c", script};
    ::_exit(run_ranks(options));
  }
  return child;
}

/// How a child ended: its exit code, 128 + signal, or -1 when it had to be killed after `seconds`.
inline int end_of(pid_t child, double seconds = 10) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace convoy::launch
