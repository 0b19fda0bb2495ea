#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/progress.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/report/live_line.h"

namespace convoy::report {

/// Progress of a command, on a terminal's stderr.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what) : what_(std::move(what)) {}

  ProgressFn function() {
    return [this](int64_t done, int64_t total) { show(done, total); };
  }
  double seconds() const { return seconds_since(start_); }
  void wipe() { line_.wipe(); }

 private:
  void show(int64_t done, int64_t total) {
    if (total <= 0 || !line_.due()) return;
    const double part = static_cast<double>(done) / static_cast<double>(total);
    const double left = part > 0 ? seconds() * (1 - part) / part : 0;
    line_.show(fmt::format("{} {:3.0f} %  {} left", what_, 100 * part, human_seconds(left)));
  }

  std::string what_;
  report::LiveLine line_{stderr};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A line of what a command did, under a label.
template <class... Args>
void line(const char* label, fmt::format_string<Args...> format, Args&&... args) {
  const auto text = printable_lines(fmt::format(format, std::forward<Args>(args)...));
  fmt::print("{}\n", wrap(fmt::format("{:<11}{}", label, text), 11));
}

}  // namespace convoy::report
