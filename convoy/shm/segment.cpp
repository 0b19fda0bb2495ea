#include "convoy/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <random>

#include "convoy/base/error.h"
#include "convoy/shm/cores.h"

namespace convoy::shm {

namespace {

constexpr uint64_t kMagic = 0x33'79'6f'76'6e'6f'63;  // "convoy3"

enum AbortState : uint32_t { kRunning, kWriting, kAborted };

struct Header {
  std::atomic<uint64_t> magic;
  std::atomic<uint64_t> slot_bytes;  // the ranks may see other numbers of cores
  std::atomic<uint32_t> size;
  std::atomic<uint32_t> ranks_on_host;
  std::atomic<uint32_t> state;
  std::array<char, 1000> reason;
  uint32_t num_missing;
  std::array<int32_t, 64> missing;
};
constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(Header) <= kHeaderBytes);

size_t round_to_page(size_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

/// Key that tells this process from all others, also in other containers, which may have the same
/// process id.
uint64_t process_key() {
  static std::mutex mutex;
  static pid_t process = 0;
  static uint64_t key = 0;
  const std::lock_guard lock(mutex);
  if (process != ::getpid()) {  // a fork is another process
    process = ::getpid();
    std::random_device random;
    key = uint64_t{random()} << 32 | random();
  }
  return key;
}

/// A record lock on the byte of a rank: the kernel takes it away when the process ends.
struct flock lock_of(int rank, short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

std::shared_ptr<Segment> Segment::of_threads(int size, int ranks_on_host) {
  return std::shared_ptr<Segment>(new Segment(-1, size, std::max(size, ranks_on_host)));
}

std::shared_ptr<Segment> Segment::create(int size, int ranks_on_host) {
  const int fd = ::memfd_create("convoy", MFD_CLOEXEC);
  if (fd < 0) {
    fail<FileError>("shm", "cannot make shared memory: {}; try backend = gloo",
                    std::strerror(errno));
  }
  return std::shared_ptr<Segment>(new Segment(fd, size, std::max(size, ranks_on_host)));
}

std::shared_ptr<Segment> Segment::adopt(int fd, int size) {
  std::shared_ptr<Segment> segment(new Segment(fd, size, size));
  const auto* header = reinterpret_cast<const Header*>(segment->memory_);
  const bool known = segment->mapped_bytes_ >= kHeaderBytes && header->magic == kMagic &&
                     header->size == static_cast<uint32_t>(size);
  if (known) {
    segment->slot_bytes_ = header->slot_bytes;
    segment->ranks_on_host_ = static_cast<int>(header->ranks_on_host);
  }
  if (!known || segment->total_bytes() != segment->mapped_bytes_) {
    fail<CommunicationError>("shm",
                             "the shared memory is not that of this version of convoy for {} "
                             "ranks; try the same program on all ranks",
                             size);
  }
  return segment;
}

Segment::Segment(int fd, int size, int ranks_on_host)
    : fd_(fd),
      size_(size),
      ranks_on_host_(ranks_on_host),
      slot_bytes_(have_cores(ranks_on_host) ? 256 << 10 : 512 << 10) {
  struct stat status{};
  const bool is_new = fd < 0 || (::fstat(fd, &status) == 0 && status.st_size == 0);
  mapped_bytes_ = is_new ? total_bytes() : static_cast<size_t>(status.st_size);
  const bool sized = !is_new || fd < 0 || ::ftruncate(fd, static_cast<off_t>(mapped_bytes_)) == 0;
  const int kind = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
  void* memory =
      sized ? ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, kind, fd, 0) : MAP_FAILED;
  if (memory == MAP_FAILED) {
    const int reason = errno;
    if (fd >= 0) ::close(fd);
    fail<FileError>("shm",
                    "cannot map {} bytes of shared memory for {} ranks: {}; try {}backend = gloo",
                    mapped_bytes_, size, std::strerror(reason),
                    reason == EFBIG ? "a higher `ulimit -f`, or " : "");
  }
  memory_ = static_cast<char*>(memory);
  if (!is_new) return;
  auto* header = reinterpret_cast<Header*>(memory_);
  header->size = static_cast<uint32_t>(size);
  header->ranks_on_host = static_cast<uint32_t>(ranks_on_host);
  header->slot_bytes = slot_bytes_;
  header->magic = kMagic;
}

Segment::~Segment() {
  if (rank_ >= 0) retract_activity(area(rank_).activity.data());
  ::munmap(memory_, mapped_bytes_);
  if (fd_ >= 0) ::close(fd_);
}

void Segment::enter(int rank) {
  if (fd_ < 0) return;
  auto lock = lock_of(rank, F_WRLCK);
  if (::fcntl(fd_, F_SETLK, &lock) != 0) {
    fail<CommunicationError>("shm", "rank {} is there twice: its place is taken; try one launcher",
                             rank);
  }
  rank_ = rank;
  area(rank).process_key = process_key();
  area(rank).process = ::getpid();
  publish_activity(area(rank).activity.data());
}

bool Segment::is_alive(int rank) const {
  // A process's own locks, those of ranks that are threads of it, are invisible to it; before
  // another entered nobody can tell.
  const auto& other = area(rank);
  if (fd_ < 0 || other.process == 0 || other.process_key == process_key()) return true;
  auto lock = lock_of(rank, F_WRLCK);
  return ::fcntl(fd_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

size_t Segment::slots_offset() const {
  const auto size = static_cast<size_t>(size_);
  return round_to_page(kHeaderBytes + size * sizeof(RankArea) + size * size * sizeof(MailboxArea));
}

size_t Segment::letters_offset() const {
  return slots_offset() + static_cast<size_t>(size_) * kSlots * slot_bytes_;
}

size_t Segment::total_bytes() const {
  return letters_offset() +
         static_cast<size_t>(size_) * static_cast<size_t>(size_) * kLetters * kLetterBytes;
}

RankArea& Segment::area(int rank) const {
  return reinterpret_cast<RankArea*>(memory_ + kHeaderBytes)[rank];
}

char* Segment::slot(int rank, uint32_t phase) const {
  return memory_ + slots_offset() +
         (static_cast<size_t>(rank) * kSlots + phase % kSlots) * slot_bytes_;
}

MailboxArea& Segment::mailbox(int from, int to) const {
  auto* first = memory_ + kHeaderBytes + static_cast<size_t>(size_) * sizeof(RankArea);
  return reinterpret_cast<MailboxArea*>(first)[from * size_ + to];
}

char* Segment::message(int from, int to, uint32_t index) const {
  const size_t box =
      static_cast<size_t>(from) * static_cast<size_t>(size_) + static_cast<size_t>(to);
  return memory_ + letters_offset() + (box * kLetters + index % kLetters) * kLetterBytes;
}

void Segment::abort(const std::string& reason, const std::vector<int>& missing) {
  auto* header = reinterpret_cast<Header*>(memory_);
  uint32_t expected = kRunning;
  if (header->state.compare_exchange_strong(expected, kWriting)) {
    reason.copy(header->reason.data(), header->reason.size() - 1);
    header->num_missing = static_cast<uint32_t>(std::min(missing.size(), header->missing.size()));
    std::copy_n(missing.begin(), header->num_missing, header->missing.begin());
    header->state = kAborted;
  }
  for (int r = 0; r < size_; ++r) {
    area(r).posted.wake();
    area(r).bell.wake();
  }
}

bool Segment::aborted() const {
  return reinterpret_cast<const Header*>(memory_)->state.load(std::memory_order_relaxed) !=
         kRunning;
}

CommunicationError Segment::abort_error(const std::string& operation) const {
  const auto* header = reinterpret_cast<const Header*>(memory_);
  const bool told = header->state == kAborted;
  return {fmt::format("[comm] '{}' was stopped: {}", operation,
                      told ? header->reason.data() : "another rank stopped"),
          told ? std::vector<int>(header->missing.begin(),
                                  header->missing.begin() + header->num_missing)
               : std::vector<int>{}};
}

}  // namespace convoy::shm
