#include "convoy/launch/signals.h"

#include <atomic>

namespace convoy::launch {
namespace {

std::array<std::atomic<int>, NSIG> pending;
static_assert(std::atomic<int>::is_always_lock_free);

void remember(int signal) {
  pending[signal].fetch_add(1);
}

}  // namespace

SignalCatcher::SignalCatcher() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    pending[kSignals[i]] = 0;
    struct sigaction action{};
    action.sa_handler = remember;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

SignalCatcher::~SignalCatcher() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

std::optional<int> SignalCatcher::next() {
  for (int signal : kSignals) {
    int count = pending[signal].load();
    if (count > 0) {
      pending[signal].fetch_sub(1);
      return signal;
    }
  }
  return std::nullopt;
}

}  // namespace convoy::launch
