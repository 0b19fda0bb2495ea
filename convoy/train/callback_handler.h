#pragma once

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "convoy/base/text.h"
#include "convoy/job/job.h"
#include "convoy/report/progress_output.h"
#include "convoy/train/callback.h"

namespace convoy::train {

// Internal to the component.

/// Calls the callbacks of a run, on the main rank only.
class CallbackHandler {
 public:
  explicit CallbackHandler(int rank) : rank_(rank) {}

  void add(std::shared_ptr<Callback> callback) { callbacks_.push_back(std::move(callback)); }

  template <class F>
  void notify(F call) const {
    if (rank_ != 0) return;
    for (const auto& callback : callbacks_) call(*callback);
  }

  void say(const std::string& text) const {
    notify([&](Callback& callback) { callback.on_message(text); });
  }

  /// Shows a warning; on ranks other than 0 it goes to standard error with the rank. Any rank may
  /// call this alone.
  void warn(const std::string& text) const {
    say("warning: " + text);
    if (rank_ == 0) return;
    report::show_progress(fmt::format("warning: rank {}: {}\n", rank_, printable_lines(text)),
                          stderr);
  }

 private:
  int rank_;
  std::vector<std::shared_ptr<Callback>> callbacks_;
};

}  // namespace convoy::train
