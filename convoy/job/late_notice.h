#pragma once

#include <chrono>
#include <string>
#include <thread>

namespace convoy::job {

/// Guard: tells a person `text`, the reason of a wait, if it still lives after a while.
class LateNotice {
 public:
  LateNotice(std::chrono::milliseconds after, std::string text);

 private:
  std::jthread thread_;
};

}  // namespace convoy::job
