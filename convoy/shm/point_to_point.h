#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "convoy/shm/reduce.h"
#include "convoy/shm/segment.h"
#include "convoy/shm/slot_writer.h"
#include "convoy/shm/ticket.h"

namespace convoy::shm {

/// Carries tensors from one rank to another, each through its mailbox: some messages' worth of
/// shared memory per ordered pair of ranks. A thread moves them while the rank computes, and the
/// rank itself while it waits. What goes from one rank to another arrives in the order
/// sent; all else goes on side by side, so two ranks may send to each other before either receives.
class PointToPoint {
 public:
  PointToPoint(std::shared_ptr<Segment> segment, int rank, std::chrono::milliseconds timeout);
  ~PointToPoint();
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  /// Starts a message. Its memory must stay until the ticket is done. It fails with
  /// CommunicationError when the other ends, aborts, expects another size, type or label, or
  /// nothing moves within the timeout.
  std::shared_ptr<Ticket> send(const void* data, size_t count, Dtype dtype, int to,
                               const std::string& label);
  std::shared_ptr<Ticket> receive(void* data, size_t count, Dtype dtype, int from,
                                  const std::string& label);
  /// Moves what there is, of all transfers, until `ticket` is done.
  void wait(Ticket& ticket);

 private:
  struct Transfer;

  std::shared_ptr<Ticket> add(std::deque<Transfer>& queue, Transfer transfer);
  void loop();
  /// Looks for something to move, and sleeps a while where there is nothing. `lock` is held.
  void move_or_sleep(std::unique_lock<std::mutex>& lock);
  bool advance_all();
  /// Moves what can be moved now; whether anything did.
  bool push(Transfer& transfer);
  bool pull(Transfer& transfer);
  void check(const Transfer& transfer) const;
  [[noreturn]] void give_up(const Transfer& transfer, const std::string& reason,
                            const std::vector<int>& missing) const;

  std::shared_ptr<Segment> segment_;
  int rank_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::deque<Transfer>> outgoing_, incoming_;  // [other rank]
  SlotWriter writer_;
  size_t num_transfers_ = 0;
  std::atomic<int> waiting_{0};  ///< threads in wait(): they move all there is
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace convoy::shm
