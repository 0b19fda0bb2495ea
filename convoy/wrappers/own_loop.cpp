#include "convoy/wrappers/own_loop.h"

#include <c10/util/Exception.h>

#include <fstream>
#include <iterator>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/job/job.h"
#include "convoy/launch/error_file.h"
#include "convoy/launch/process.h"
#include "convoy/launch/supervise/agent.h"

namespace convoy::wrappers {

namespace {

/// Command line of this program.
std::vector<std::string> own_arguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string all{std::istreambuf_iterator<char>(in), {}};
  if (!all.empty() && all.back() == '\0') all.pop_back();
  auto words = split(all, '\0');
  if (!words.empty()) words.erase(words.begin());
  return words;
}

}  // namespace

const comm::Group& world() {
  static const job::Job job = job::join_job({});  // with its threads
  return job.world();
}

void spawn(int num_ranks, const std::function<void()>& function) {
  if (num_ranks < 1)
    fail<UsageError>("wrappers", "spawn of {} ranks; expected at least 1", num_ranks);
  const auto environment = launch::detect_environment();
  if (environment.launched()) {
    try {
      return function();
    } catch (const c10::Error& error) {
      launch::write_error_file(environment, "c10::Error", error.what_without_backtrace());
      throw;
    } catch (const std::exception& error) {
      launch::write_error_file(environment, "Exception", error.what());
      throw;
    }
  }
  launch::LaunchOptions options;
  options.num_ranks = num_ranks;
  options.command = launch::this_program();
  for (auto& word : own_arguments()) options.command.push_back(std::move(word));
  std::string report;
  options.say = [&](std::string_view text) { (report += text) += '\n'; };
  if (launch::run_ranks(options) != 0) throw CommunicationError(report);
}

}  // namespace convoy::wrappers
