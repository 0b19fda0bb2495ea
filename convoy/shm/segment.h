#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/shm/waiting.h"

namespace convoy::shm {

/// Phases of a collective whose data one rank keeps at a time, see Channel.
inline constexpr uint32_t kSlots = 4;
/// Messages of a mailbox at a time, and their size; see Mailbox.
inline constexpr uint32_t kLetters = 4;
inline constexpr size_t kLetterBytes = 128 << 10;

/// Next operation of a rank, for the others to compare with their own.
struct Announcement {
  uint32_t phase;  ///< in which it begins, plus one: 0 is none
  uint32_t kind;
  uint32_t dtype;
  uint32_t op;  ///< or the root
  uint64_t count;
  std::array<char, 104> label;
};

/// One rank's part of the memory that all ranks of a host share.
struct alignas(128) RankArea {
  Counter posted;  ///< phases whose data lie in the slots
  Counter bell;    ///< rung when a mailbox of this rank changed
  std::array<Announcement, kSlots> announcements;
  std::atomic<int32_t> process;       ///< its id
  std::atomic<uint64_t> process_key;  ///< number of the process, unique over containers, too
  std::atomic<int32_t> core;          ///< the core on which it posted last
  alignas(8) std::array<char, kActivityBytes> activity;
};

/// Two ends of a mailbox: how many messages were put in and taken out.
struct alignas(128) MailboxArea {
  std::atomic<uint32_t> written;
  alignas(64) std::atomic<uint32_t> taken;
};

/// Memory that the ranks of one host share: of threads, or of processes (a memfd, which belongs to
/// no folder and goes with the last of them). Pages come into being when they are first touched.
class Segment {
 public:
  /// Makes the memory for threads of this process. `ranks_on_host`: as for create().
  static std::shared_ptr<Segment> of_threads(int size, int ranks_on_host = 0);
  /// Makes the memory for processes; fd() is to be handed to the others. `ranks_on_host`: number of
  /// ranks that compute on this host, those of other segments among them. Throws FileError when
  /// this host does not give the memory.
  static std::shared_ptr<Segment> create(int size, int ranks_on_host = 0);
  /// Takes over a descriptor that create() made in another process. Throws CommunicationError when
  /// it is not what is expected.
  static std::shared_ptr<Segment> adopt(int fd, int size);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int size() const { return size_; }
  int ranks_on_host() const { return ranks_on_host_; }
  int fd() const { return fd_; }
  /// Bytes of the data of one phase: a part of a core's cache. Larger where ranks share cores,
  /// because there each phase costs switches between them.
  size_t slot_bytes() const { return slot_bytes_; }

  /// Sets the names of ranks in messages: their numbers in the whole job.
  void set_names(std::vector<int> names) { names_ = std::move(names); }
  int name(int rank) const { return names_.empty() ? rank : names_.at(static_cast<size_t>(rank)); }

  /// Makes this process rank `rank`: the others see when it ends, and what it is doing.
  void enter(int rank);
  /// Whether the process of a rank that entered still runs. Threads always do.
  bool is_alive(int rank) const;

  RankArea& area(int rank) const;
  char* slot(int rank, uint32_t phase) const;
  MailboxArea& mailbox(int from, int to) const;
  char* message(int from, int to, uint32_t index) const;

  /// Makes all present and later waits of all ranks fail; the first reason stays. `missing`: the
  /// ranks that were waited for in vain.
  void abort(const std::string& reason, const std::vector<int>& missing = {});
  bool aborted() const;
  /// Returns the error of a rank that was stopped in `operation`.
  CommunicationError abort_error(const std::string& operation) const;

 private:
  Segment(int fd, int size, int ranks_on_host);
  size_t slots_offset() const;
  size_t letters_offset() const;
  size_t total_bytes() const;

  int fd_;
  int size_;
  int ranks_on_host_;
  size_t slot_bytes_;
  int rank_ = -1;
  std::vector<int> names_;
  char* memory_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace convoy::shm
