#pragma once

#include <atomic>
#include <functional>

#include "convoy/comm/group.h"

namespace convoy::train {

/// Signal that ends a training after a step, on all ranks alike.
class StopSignal {
 public:
  using Listen = std::function<const std::atomic<int>&()>;

  void set(Listen listen) { listen_ = std::move(listen); }
  /// Begins a training, which nothing has ended yet.
  void begin() {
    began_ = true;
    source_ = nullptr;
    ended_by = 0;
  }
  /// Listens from now on, if it does not yet.
  void listen() {
    if (listen_ && source_ == nullptr) source_ = &listen_();
  }
  /// Signal of this rank, which changes while it is read; null: it does not listen.
  const std::atomic<int>* source() const { return source_; }
  /// Whether a training began on all ranks, which may agree on an end.
  bool began() const { return began_; }
  /// Signal that came to one of the ranks, 0 for none. Collective.
  int of_any_rank(const comm::Group& group) const;

  int ended_by = 0;  ///< signal that ended the training, or the evaluation after it; 0: none

 private:
  Listen listen_;
  const std::atomic<int>* source_ = nullptr;
  bool began_ = false;
};

}  // namespace convoy::train
