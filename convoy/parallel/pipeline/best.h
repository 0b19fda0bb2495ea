#pragma once

#include <optional>
#include <utility>

#include "convoy/parallel/pipeline/builders.h"

namespace convoy::parallel {

/// Keeps the fastest of the schedules that fit; of equally fast ones that of the lower peak, then
/// the first.
class Best {
 public:
  Best(const Pipe& pipe, double memory) : pipe_(pipe), memory_(memory * (1 + 1e-9)) {}

  void try_out(const Orders& orders) {
    const auto played = play(pipe_, orders);
    if (!played.ends || played.highest_peak() > memory_) return;
    if (best_ && !is_better(played)) return;
    best_ = orders;
    length_ = played.length;
    peak_ = played.highest_peak();
  }
  Orders take() { return std::move(*best_); }

 private:
  bool is_better(const Played& played) const {
    constexpr double kRounding = 1e-9;
    if (played.length < length_ * (1 - kRounding)) return true;
    return played.length < length_ * (1 + kRounding) && played.highest_peak() < peak_;
  }

  const Pipe& pipe_;
  double memory_;
  std::optional<Orders> best_;
  double length_ = 0, peak_ = 0;
};

}  // namespace convoy::parallel
