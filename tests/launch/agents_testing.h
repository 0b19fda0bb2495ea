#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/launch/hosts/host_agent.h"
#include "tests/base/unused_port.h"
#include "tests/launch/processes_testing.h"

namespace convoy::launch {

/// Script of a rank that stays until it is told to leave, then says what it would have saved.
inline constexpr const char* kStays =
    "trap 'echo saved > $D/saved-$N-$CONVOY_ROUND-$LOCAL_RANK; exit 143' TERM; "
    "echo $$ > $D/pid-$N-$CONVOY_ROUND-$LOCAL_RANK; while :; do sleep 0.02; done";
/// As kStays in the first round; later it tells of itself and ends.
inline const std::string kFirstRoundStays =
    std::string("if [ $CONVOY_ROUND = 0 ]; then ") + kStays +
    "; fi; echo $RANK $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT > $D/second-$N-$LOCAL_RANK";

/// Several agents as processes of this host, each with ranks that run a shell script.
class Agents : public ::testing::Test {
 protected:
  using Change = std::function<void(LaunchOptions&, HostOptions&)>;

  Agents() : folder_(unique_folder("agents-test")), port_(unused_port()) {}

  ~Agents() override {
    for (const auto& [name, pid] : agents_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  /// Starts an agent with two ranks, whose words go to the file said-NAME. $D is a folder of the
  /// test, $N the agent's name.
  void start(const std::string& name, const std::string& script, const Change& change = nullptr) {
    const pid_t child = ::fork();
    if (child > 0) agents_[name] = child;
    if (child != 0) return;
    ::signal(SIGINT, SIG_DFL);  // a test in the background has it ignored
    ::setenv("CONVOY_TOKEN", token_.c_str(), 1);
    LaunchOptions options;
    options.num_ranks = 2;
    options.grace_seconds = 0.5;
    options.command = {"/bin/sh", "-c",
                       fmt::format("D={} N={}\n{}", folder_.string(), name, script)};
    options.say = [file = folder_ / ("said-" + name)](std::string_view text) {
      std::ofstream(file, std::ios::app) << text << std::flush;
    };
    HostOptions host;
    host.endpoint = {"127.0.0.1", port_};
    host.rendezvous.min_nodes = min_nodes_;
    host.rendezvous.max_nodes = max_nodes_;
    host.rendezvous.last_call_timeout = 0.3;
    host.rendezvous.heartbeat_timeout = 2;
    host.rendezvous.join_timeout = 20;
    if (change) change(options, host);
    int code = 70;
    try {
      code = host.serves_only ? serve_rendezvous(options, host) : run_ranks_of_host(options, host);
    } catch (const UsageError& error) {
      options.say(error.what());
      code = 2;
    } catch (const CommunicationError& error) {
      options.say(error.what());
      code = 3;
    }
    ::_exit(code);
  }

  /// How an agent ended: its exit code, 128 + signal, or -1 when it still runs after `seconds`.
  int end(const std::string& name, double seconds = 12) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    int status = 0;
    while (::waitpid(agents_.at(name), &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) return -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    agents_.erase(name);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  std::string said(const std::string& name) const {
    const auto file = folder_ / ("said-" + name);
    return std::filesystem::exists(file) ? read_file(file) : "";
  }

  void expect_said(const std::string& name, const std::string& part) const {
    EXPECT_NE(said(name).find(part), std::string::npos) << said(name) << "\nlacks: " << part;
  }

  /// Waits until a file of the test folder is there and not empty.
  bool appears(const std::string& name) const {
    for (int i = 0; i < 1000; ++i) {
      std::error_code ignored;
      const auto size = std::filesystem::file_size(folder_ / name, ignored);
      if (!ignored && size > 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << name << " does not appear";
    return false;
  }

  std::string content(const std::string& name) const { return read_file(folder_ / name); }
  pid_t pid_in(const std::string& name) const { return std::stoi(content(name)); }

  std::filesystem::path folder_;
  int port_ = 0;
  int min_nodes_ = 2;
  int max_nodes_ = 2;
  std::string token_ = "a secret of the test";
  std::map<std::string, pid_t> agents_;
};

}  // namespace convoy::launch
