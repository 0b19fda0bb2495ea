#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "convoy/base/error.h"
#include "convoy/comm/group.h"
#include "convoy/train/callback_handler.h"

namespace convoy::train {

/// Waits for space where a save finds the disk full, and saves again.
class SpaceWait {
 public:
  /// Waits up to `longest` for space in `folder`, and tells of it by `callbacks`, which must
  /// outlive this object.
  SpaceWait(std::chrono::duration<double> longest, std::filesystem::path folder,
            const CallbackHandler& callbacks)
      : longest_(longest), folder_(std::move(folder)), callbacks_(callbacks) {}

  /// Returns the signal that came to one of the ranks, 0 for none; collective.
  using StopSignalOfAny = std::function<int(const comm::Group&)>;
  void set_stop_signal(StopSignalOfAny of_any_rank) { stop_signal_ = std::move(of_any_rank); }

  /// Whether a save that finds the disk full waits: not before note_saved(), as the folder is
  /// perhaps the wrong one.
  bool waits() const { return saved_ && longest_.count() > 0; }
  /// Tells that the folder has taken a save before.
  void note_saved() { saved_ = true; }
  /// Bytes that a save writes; asked for where the disk is full.
  using Bytes = std::function<int64_t()>;
  /// Runs `save`, which writes `bytes`, until the disk takes it. Throws what `save` throws: errors
  /// of other kinds, and that of a full disk where nobody waits, after the wait or a stop signal.
  /// Collective over `group`; all ranks must throw the same.
  void run(const comm::Group& group, const Bytes& bytes, const std::function<void()>& save);

 private:
  using Clock = std::chrono::steady_clock;
  /// Ways in which a wait ends.
  enum class End { Try, Signal, Time };

  void tell(int64_t bytes, const DiskFullError& error) const;
  End wait(const comm::Group& group, int64_t bytes, Clock::time_point began) const;

  std::chrono::duration<double> longest_;
  std::filesystem::path folder_;
  const CallbackHandler& callbacks_;
  StopSignalOfAny stop_signal_;
  bool saved_ = false;
};

}  // namespace convoy::train
