#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/shm/reduce.h"
#include "convoy/shm/segment.h"
#include "convoy/shm/slot_writer.h"

namespace convoy::shm {

/// Collectives between the ranks of one host, on memory that only its rank can see.
///
/// Everything is made of *phases*, numbered through from the first collective on. In a phase a rank
/// may put data into its slot, posts, and collects: waits until all others have posted that phase
/// and reads their slots. A rank posts phase k only when it is done with phase k - 2. So whoever
/// posts k knows that all others are done with k - 4, whose slot it then may reuse; and the next
/// piece can be on its way while the present one is read. Pieces are small enough for the caches.
///
/// Every rank calls the same operations in the same order with the same label, from one thread at a
/// time; a difference is found before any data are touched. Counts are elements. All throw
/// CommunicationError when a rank dies, differs, aborts, or is not there within the timeout.
class Channel {
 public:
  Channel(std::shared_ptr<Segment> segment, int rank, std::chrono::milliseconds timeout);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Reduces `data` over the ranks, in place.
  void all_reduce(void* data, size_t count, Dtype dtype, Reduction op, const std::string& label);

  /// out [counts[rank]] = sum over ranks of this rank's part of in [sum of counts], where `out` may
  /// be its place in `in`; `adds`: what `out` holds is the first addend, and lies elsewhere.
  void reduce_scatter(void* out, const void* in, std::span<const size_t> counts, Dtype dtype,
                      Reduction op, const std::string& label, bool adds = false);

  /// out [sum of counts] = the ranks' in [counts[rank]], in rank order. `in` may be its place in
  /// `out`.
  void all_gather(void* out, const void* in, std::span<const size_t> counts, Dtype dtype,
                  const std::string& label);

  /// data [count] of `root` on all ranks.
  void broadcast(void* data, size_t count, Dtype dtype, int root, const std::string& label);

  /// Part r of `in` goes to rank r, part r of `out` comes from rank r. Part r has send[r] and
  /// receive[r] elements; what a rank sends must be what the other expects.
  void all_to_all(void* out, std::span<const size_t> receive, const void* in,
                  std::span<const size_t> send, Dtype dtype, const std::string& label);

  void barrier(const std::string& label);

  void abort(const std::string& reason) { segment_->abort(reason); }

 private:
  /// Says what this rank is about to do.
  void begin(uint32_t kind, Dtype dtype, uint32_t op, size_t count, const std::string& label);
  char* my_slot() const { return segment_->slot(rank_, posted_); }
  void post();
  /// Waits until all have posted the oldest phase that was not collected; returns its number.
  uint32_t collect();
  void wait_for(int peer, uint32_t phase);
  /// Leaves the core to `peer` if it was seen on the same.
  void make_room(int peer);
  void compare_announcement(int peer, uint32_t phase);
  [[noreturn]] void give_up(const std::string& reason, const std::vector<int>& missing);
  const char* label() const { return call_.label.data(); }

  void all_reduce_direct(char* data, size_t bytes, Dtype dtype, Reduction op);
  void all_reduce_in_parts(char* data, size_t bytes, Dtype dtype, Reduction op);
  /// `put` fills the slot for a round, `take` reads the slots of a phase.
  void rounds(size_t count, const std::function<void(size_t)>& put,
              const std::function<void(size_t, uint32_t)>& take);

  std::shared_ptr<Segment> segment_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  size_t slot_bytes_;
  SlotWriter writer_;
  bool has_core_;  ///< for each rank there is one
  std::chrono::steady_clock::time_point made_room_{};
  uint32_t posted_ = 0;
  uint32_t collected_ = 0;
  Announcement call_{};  // the collective under way
};

/// "rank 1 (in reduce bucket 3 of step 17) has died", for the messages of who waits for it.
std::string describe(const Segment& segment, int rank);

}  // namespace convoy::shm
