#pragma once

#include <chrono>
#include <string>
#include <thread>

namespace convoy::job {

/// Tells a person `text` if it still lives after a while: what a wait is for.
class LateNotice {
 public:
  LateNotice(std::chrono::milliseconds after, std::string text);

 private:
  std::jthread thread_;
};

}  // namespace convoy::job
