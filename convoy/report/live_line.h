#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace convoy::report {

/// One line at the bottom of a terminal that is drawn again a few times a second. Where the stream
/// is no terminal nothing is ever drawn; a terminal that is gone is no error.
class LiveLine {
 public:
  explicit LiveLine(std::FILE* stream);
  ~LiveLine() { wipe(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  /// Whether it is time to show() again.
  bool due() const;
  /// Draws `text`, cut to the terminal's width; nothing where the terminal is busy.
  void show(const std::string& text);
  /// Takes the line away: before anything else is printed.
  void wipe();

 private:
  std::FILE* stream_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now();
};

}  // namespace convoy::report
