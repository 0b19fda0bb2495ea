#pragma once

#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/progress.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"

namespace convoy::cli {

/// One line on a terminal's stderr that is redrawn a few times a second and wiped at the end.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what) : what_(std::move(what)), shown_(isatty(2)) {}
  ~ProgressLine() { wipe(); }

  ProgressFn function() {
    return [this](int64_t done, int64_t total) { show(done, total); };
  }
  double seconds() const { return seconds_since(start_); }
  void wipe() {
    if (drawn_) fmt::print(stderr, "\r\033[K");
    drawn_ = false;
  }

 private:
  void show(int64_t done, int64_t total) {
    const double now = seconds();
    if (!shown_ || now < next_ || total <= 0) return;
    next_ = now + 0.2;
    const double part = static_cast<double>(done) / static_cast<double>(total);
    const double left = part > 0 ? now * (1 - part) / part : 0;
    fmt::print(stderr, "\r\033[K{} {:3.0f} %  {} left", what_, 100 * part, human_seconds(left));
    drawn_ = true;
  }

  std::string what_;
  bool shown_;
  bool drawn_ = false;
  double next_ = 0.2;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

template <class... Args>
void line(const char* label, fmt::format_string<Args...> format, Args&&... args) {
  fmt::print("{:<11}{}\n", label, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace convoy::cli
