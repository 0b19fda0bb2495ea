#include "convoy/shm/point_to_point.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/shm/channel.h"
#include "convoy/shm/copy.h"

namespace convoy::shm {

namespace {

using Clock = std::chrono::steady_clock;

/// Number of polls before sleeping. One takes 10 to 40 ns; together they last as long as a message
/// usually does.
constexpr int kLooks = 1000;

/// Header in front of the data of a transfer's first message.
struct Head {
  uint64_t count;
  uint32_t dtype;
  std::array<char, 116> label;
};
static_assert(sizeof(Head) == 128);

Head make_head(size_t count, Dtype dtype, const std::string& label) {
  Head head{count, static_cast<uint32_t>(dtype), {}};
  label.copy(head.label.data(), head.label.size() - 1);
  return head;
}

}  // namespace

struct PointToPoint::Transfer {
  char* data;
  size_t count;
  Dtype dtype;
  int other;
  bool outgoing;
  std::string label;
  std::shared_ptr<Ticket> ticket = std::make_shared<Ticket>();
  size_t moved = 0;  // bytes
  bool begun = false;
  Clock::time_point last_move = Clock::now();

  size_t bytes() const { return count * size_of(dtype); }
  bool is_done() const { return begun && moved == bytes(); }
};

PointToPoint::PointToPoint(std::shared_ptr<Segment> segment, int rank,
                           std::chrono::milliseconds timeout)
    : segment_(std::move(segment)),
      rank_(rank),
      timeout_(timeout),
      outgoing_(static_cast<size_t>(segment_->size())),
      incoming_(outgoing_.size()) {}

PointToPoint::~PointToPoint() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  added_.notify_all();
  segment_->area(rank_).bell.ring();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Ticket> PointToPoint::send(const void* data, size_t count, Dtype dtype, int to,
                                           const std::string& label) {
  return add(outgoing_.at(static_cast<size_t>(to)),
             {static_cast<char*>(const_cast<void*>(data)), count, dtype, to, true, label});
}

std::shared_ptr<Ticket> PointToPoint::receive(void* data, size_t count, Dtype dtype, int from,
                                              const std::string& label) {
  return add(incoming_.at(static_cast<size_t>(from)),
             {static_cast<char*>(data), count, dtype, from, false, label});
}

std::shared_ptr<Ticket> PointToPoint::add(std::deque<Transfer>& queue, Transfer transfer) {
  if (transfer.other == rank_) {
    fail<UsageError>("comm", "rank {} cannot send to itself, as '{}' wants", rank_, transfer.label);
  }
  auto ticket = transfer.ticket;
  {
    const std::lock_guard lock(mutex_);
    queue.push_back(std::move(transfer));
    ++num_transfers_;
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  added_.notify_all();
  segment_->area(rank_).bell.ring();
  return ticket;
}

void PointToPoint::wait(Ticket& ticket) {
  ++waiting_;  // before the lock, so that the thread gives it up
  std::unique_lock lock(mutex_);
  while (!ticket.is_done()) move_or_sleep(lock);
  --waiting_;
  if (waiting_ > 0) segment_->area(rank_).bell.ring();  // theirs may be done, too
  lock.unlock();
  added_.notify_all();
}

void PointToPoint::move_or_sleep(std::unique_lock<std::mutex>& lock) {
  Counter& bell = segment_->area(rank_).bell;
  const uint32_t heard = bell.value.load(std::memory_order_acquire);
  if (advance_all()) return;
  lock.unlock();
  if (!bell.spin(heard + 1, kLooks)) bell.sleep(heard + 1, std::min(kLook, timeout_));
  lock.lock();
}

void PointToPoint::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    added_.wait(lock, [&] { return stop_ || (num_transfers_ > 0 && waiting_ == 0); });
    if (stop_) break;
    move_or_sleep(lock);
  }
  for (auto* queues : {&outgoing_, &incoming_}) {
    for (auto& queue : *queues) {
      for (auto& transfer : queue) {
        transfer.ticket->finish(
            std::make_exception_ptr(CommunicationError("[comm] the group was closed too early")));
      }
    }
  }
}

bool PointToPoint::advance_all() {
  bool moved = false;
  for (auto* queues : {&outgoing_, &incoming_}) {
    for (auto& queue : *queues) {
      if (queue.empty()) continue;
      auto& front = queue.front();
      std::exception_ptr error;
      try {
        const bool progress = front.outgoing ? push(front) : pull(front);
        if (progress) front.last_move = Clock::now();
        if (!progress) check(front);
        moved |= progress;
      } catch (...) {
        error = std::current_exception();
      }
      if (!error && !front.is_done()) continue;
      front.ticket->finish(error);
      queue.pop_front();
      --num_transfers_;
      if (!queue.empty()) queue.front().last_move = Clock::now();
    }
  }
  return moved;
}

bool PointToPoint::push(Transfer& transfer) {
  auto& box = segment_->mailbox(rank_, transfer.other);
  bool moved = false;
  while (!transfer.is_done()) {
    const uint32_t written = box.written.load(std::memory_order_relaxed);
    if (written - box.taken.load(std::memory_order_acquire) == kLetters) break;
    char* message = segment_->message(rank_, transfer.other, written);
    size_t room = kLetterBytes;
    if (!transfer.begun) {
      const auto head = make_head(transfer.count, transfer.dtype, transfer.label);
      std::memcpy(message, &head, sizeof head);
      message += sizeof head;
      room -= sizeof head;
      transfer.begun = true;
    }
    const size_t bytes = std::min(room, transfer.bytes() - transfer.moved);
    if (bytes > 0) writer_.write(message, transfer.data + transfer.moved, bytes);
    transfer.moved += bytes;
    box.written.store(written + 1, std::memory_order_release);
    segment_->area(transfer.other).bell.ring();
    moved = true;
  }
  return moved;
}

bool PointToPoint::pull(Transfer& transfer) {
  auto& box = segment_->mailbox(transfer.other, rank_);
  bool moved = false;
  while (!transfer.is_done()) {
    const uint32_t taken = box.taken.load(std::memory_order_relaxed);
    if (box.written.load(std::memory_order_acquire) == taken) break;
    const char* message = segment_->message(transfer.other, rank_, taken);
    size_t room = kLetterBytes;
    if (!transfer.begun) {
      Head head;
      std::memcpy(&head, message, sizeof head);
      const auto expected = make_head(transfer.count, transfer.dtype, transfer.label);
      if (std::memcmp(&head, &expected, sizeof head) != 0) {
        give_up(transfer,
                fmt::format("it expects {} {}, but rank {} sends {} {} as '{}'", transfer.count,
                            name_of(transfer.dtype), segment_->name(transfer.other), head.count,
                            name_of(static_cast<Dtype>(head.dtype % 8)), head.label.data()),
                {});
      }
      message += sizeof head;
      room -= sizeof head;
      transfer.begun = true;
    }
    const size_t bytes = std::min(room, transfer.bytes() - transfer.moved);
    if (transfer.bytes() >= kStreamingBytes) {
      copy_streaming(transfer.data + transfer.moved, message, bytes);
      end_streaming();
    } else {
      copy(transfer.data + transfer.moved, message, bytes);
    }
    transfer.moved += bytes;
    box.taken.store(taken + 1, std::memory_order_release);
    segment_->area(transfer.other).bell.ring();
    moved = true;
  }
  return moved;
}

void PointToPoint::check(const Transfer& transfer) const {
  if (segment_->aborted()) throw segment_->abort_error(transfer.label);
  const auto waited = Clock::now() - transfer.last_move;
  if (waited < kLook) return;
  if (!segment_->is_alive(transfer.other)) {
    // A message that a rank left in the mailbox before it ended still counts.
    const auto& box = segment_->mailbox(transfer.other, rank_);
    if (!transfer.outgoing && box.written.load() != box.taken.load()) return;
    give_up(transfer, fmt::format("{} has ended", describe(*segment_, transfer.other)),
            {segment_->name(transfer.other)});
  }
  if (waited > timeout_) {
    give_up(transfer,
            fmt::format("waited {} s for {}", static_cast<double>(timeout_.count()) / 1000,
                        describe(*segment_, transfer.other)),
            {segment_->name(transfer.other)});
  }
}

void PointToPoint::give_up(const Transfer& transfer, const std::string& reason,
                           const std::vector<int>& missing) const {
  const auto text = fmt::format("'{}' did not finish: {}", transfer.label, reason);
  segment_->abort(fmt::format("rank {}: {}", segment_->name(rank_), text), missing);
  throw CommunicationError(fmt::format("[comm] {}", text), missing);
}

}  // namespace convoy::shm
