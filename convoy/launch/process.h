#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace convoy::launch {

struct ProcessOptions {
  std::map<std::string, std::string> env;   ///< set on top of this process's environment
  bool capture = true;                      ///< false: output goes where this process's goes
  double timeout_seconds = 0;               ///< 0: none
  std::filesystem::path working_directory;  ///< empty: the current one
};

struct ProcessResult {
  int exit_code = 0;  ///< 128 + signal when a signal ended it
  int signal = 0;     ///< 0 when it exited
  bool timed_out = false;
  std::string out;
  std::string err;
  int64_t max_rss_bytes = 0;  ///< of the largest process among it and those it waited for
  double seconds = 0;

  bool ok() const { return exit_code == 0 && !timed_out; }
};

/// Runs a program to its end in a fresh process. One that runs out of time is killed together with
/// the processes it started. Its standard input is empty.
/// Throws UsageError when it cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// Command of this program, to be put in front of the arguments for another run of it.
std::vector<std::string> this_program();

/// "SIGKILL" for 9; "signal 77" for one without a name.
std::string signal_name(int signal);

}  // namespace convoy::launch
