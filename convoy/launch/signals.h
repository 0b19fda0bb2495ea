#pragma once

#include <signal.h>

#include <array>
#include <optional>

namespace convoy::launch {

/// Holds back SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGUSR1 while it lives, for a loop that asks for
/// them. One at a time; signals that were ignored stay ignored.
class SignalCatcher {
 public:
  SignalCatcher();
  ~SignalCatcher();
  SignalCatcher(const SignalCatcher&) = delete;
  SignalCatcher& operator=(const SignalCatcher&) = delete;

  /// The next signal that came, oldest kind first.
  std::optional<int> next();

 private:
  static constexpr std::array<int, 5> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace convoy::launch
