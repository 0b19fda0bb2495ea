#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace convoy::jinja {

/// Mistake of a template or of the data it is given, before its template's name and line are known.
class Trouble : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void trouble(fmt::format_string<Args...> format, Args&&... args) {
  throw Trouble(fmt::format(format, std::forward<Args>(args)...));
}

/// Bounds on the work of one rendering, so that a hostile template ends with an error.
struct RenderLimits {
  int64_t max_steps = 20'000'000;  ///< nodes evaluated, items visited
  int64_t max_bytes = 1LL << 30;   ///< bytes of all texts and lists that are made on the way
  int max_depth = 1000;            ///< nodes within nodes, calls included
};

/// Work that one rendering may still do.
class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits) {}

  void step(int64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.max_steps) trouble("it takes more than {} steps", limits_.max_steps);
  }
  /// Counts bytes of text before their memory is taken; throws Trouble when there are too many.
  void bytes(uint64_t count) {
    if (count > static_cast<uint64_t>(limits_.max_bytes - bytes_)) {
      trouble("it makes more than {} bytes of text", limits_.max_bytes);
    }
    bytes_ += static_cast<int64_t>(count);
  }
  void enter() {
    if (++depth_ > limits_.max_depth) {
      trouble("its calls and expressions nest more than {} deep", limits_.max_depth);
    }
  }
  void leave() { --depth_; }

 private:
  RenderLimits limits_;
  int64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
};

}  // namespace convoy::jinja
