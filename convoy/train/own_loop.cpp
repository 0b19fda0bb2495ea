#include "convoy/train/own_loop.h"

#include <fstream>
#include <iterator>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/agent.h"
#include "convoy/launch/error_file.h"
#include "convoy/launch/process.h"
#include "convoy/train/job.h"

namespace convoy::train {

namespace {

/// The words this program was started with.
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
  static const comm::Group group = join_job({}).group;
  return group;
}

int spawn(int num_ranks, const std::function<void()>& function) {
  if (num_ranks < 1) fail<UsageError>("train", "spawn of {} ranks; expected at least 1", num_ranks);
  const auto environment = launch::detect_environment();
  if (environment.launched()) {
    try {
      function();
      return 0;
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
  const int code = launch::run_ranks(options);
  if (code != 0) throw CommunicationError(report);
  return code;
}

}  // namespace convoy::train
