#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "convoy/parallel/program/memory.h"
#include "convoy/parallel/program/simulate.h"

namespace convoy::parallel {

inline double at_or_none(const std::vector<double>& values, int64_t index) {
  return values.empty() ? 0 : values.at(static_cast<size_t>(index));
}

/// Work that overlaps with a rank's computing: collectives one after the other, transfers of
/// offloaded state likewise. Each call returns the rank's time after it.
class OverlappedWork {
 public:
  OverlappedWork(const Layout& layout, const StepTimes& times)
      : layout_(layout),
        times_(times),
        gathered_(static_cast<size_t>(layout.num_buckets()), 0),
        fetched_(kNumKinds * gathered_.size(), 0) {}

  double start(double now, const Instruction& i) {
    switch (i.op) {
      case Op::Reduce:
        return sum(now, times_.reduce, i.bucket);
      case Op::ReduceScatter:
        if (layout_.offloaded(Kind::Gradients)) {
          now = std::max(with_room(now), fetched({Kind::Gradients, i.bucket}));
        }
        now = sum(now, times_.reduce_scatter, i.bucket);
        if (sums_.size() <= kBucketsInFlight || !layout_.is_sharded(Kind::Gradients)) return now;
        now = std::max(now, sums_.front());
        sums_.pop_front();
        return now;
      case Op::Gather:
        now = std::max(now, fetched({Kind::Weights, i.bucket}));  // the own part is copied
        return collective(now, times_.gather, i.bucket, gathered_[static_cast<size_t>(i.bucket)]);
      case Op::Fetch:
        now = with_room(now, Key{i.kind, i.bucket});
        fetched_[place_of({i.kind, i.bucket})] = transfer(now, i);
        return now;
      case Op::Store:
        if (i.kind == Kind::Gradients) now = ended(now);
        writes_.emplace_back(Key{i.kind, i.bucket}, transfer(now, i));
        return now;
      case Op::ReduceTensor:
        return now + at_or_none(times_.reduce_tensor, i.unit);
      case Op::FetchRows:  // the rank waits for rows
        return now + times_.fetch_rows;
      case Op::ReduceRows:
        return now + times_.reduce_rows;
      case Op::UpdateRows:
        return now + times_.update_rows;
      default:
        return now;
    }
  }

  /// Time at which a bucket's gathered weights are there.
  double gathered(int64_t bucket) const { return gathered_[static_cast<size_t>(bucket)]; }

  /// Time at which a bucket's offloaded state is there, as far as an update reads it.
  double ready_to_update(int64_t bucket) const {
    double out = 0;
    for (const auto& [kind, times] : times_.offload) out = std::max(out, fetched({kind, bucket}));
    return out;
  }

  /// Sums that were begun since the last call.
  std::vector<BegunSum> take_begun() { return std::exchange(begun_, {}); }
  /// Sets the time at which all sums ended, whatever StepTimes says.
  void set_ended(double time) {
    queue_ = last_ = time;
    sums_.assign(1, time);
  }
  /// Time at which all sums have ended, those of losses and norms behind them.
  double summed(double now) { return ended(now) + times_.replicas + times_.totals; }

 private:
  using Key = std::pair<Kind, int64_t>;  // bucket
  static constexpr size_t kNumKinds = static_cast<size_t>(Kind::Moments) + 1;

  double ended(double now) {
    for (const double end : sums_) now = std::max(now, end);
    sums_.clear();
    return now;
  }

  size_t place_of(const Key& key) const {
    return static_cast<size_t>(key.first) * gathered_.size() + static_cast<size_t>(key.second);
  }
  double fetched(const Key& key) const { return fetched_[place_of(key)]; }

  /// Time at which there is memory for another bucket, as parallel::Offload has it: one bucket at a
  /// time may be under way to its store, and a bucket must have been written before it is fetched.
  double with_room(double now, std::optional<Key> wanted = {}) {
    const auto is_wanted = [&](const auto& write) { return write.first == wanted; };
    while (!writes_.empty() && (writes_.front().first.second != writes_.back().first.second ||
                                std::any_of(writes_.begin(), writes_.end(), is_wanted))) {
      now = std::max(now, writes_.front().second);
      writes_.pop_front();
    }
    return now;
  }

  double transfer(double now, const Instruction& i) {
    const auto found = times_.offload.find(i.kind);
    if (found == times_.offload.end()) return now;
    auto& queue = transfers_[found->second.place];
    return queue = std::max(queue, now) + at_or_none(found->second.of_bucket, i.bucket);
  }

  double collective(double now, const InRow& times, int64_t bucket, double& end) {
    const double takes = at_or_none(times.alone, bucket), begin = std::max(queue_, now);
    queue_ = begin + (times.in_row.empty() ? takes : at_or_none(times.in_row, bucket));
    end = last_ = std::max(last_, begin + takes);
    return now + (1 - times_.beside) * takes;
  }
  double sum(double now, const InRow& times, int64_t bucket) {
    begun_.push_back({bucket, now});
    sums_.push_back(0);
    return collective(now, times, bucket, sums_.back());
  }

  const Layout& layout_;
  const StepTimes& times_;
  double queue_ = 0, last_ = 0;  // when the next collective may begin, when the last one has ended
  std::map<Place, double> transfers_;
  std::vector<double> gathered_, fetched_;     // [bucket], [kind][bucket]
  std::deque<std::pair<Key, double>> writes_;  // under way
  std::deque<double> sums_;
  std::vector<BegunSum> begun_;
};

}  // namespace convoy::parallel
