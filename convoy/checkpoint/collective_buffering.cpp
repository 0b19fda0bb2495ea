#include "convoy/checkpoint/collective_buffering.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "convoy/comm/agree.h"
#include "convoy/comm/to_host.h"

namespace convoy::checkpoint {

using parallel::State;

namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;  // stays in a core's cache
constexpr size_t kMostSlots = 64;
constexpr size_t kLongRow = size_t{256} << 10;  // bytes that a file takes as fast by themselves

size_t width_of(const parallel::StateTensor& tensor) {
  return c10::elementSize(tensor.dtype);
}

int64_t elements_of(const parallel::StateTensor& tensor) {
  return c10::multiply_integers(tensor.shape);
}

/// Returns the number of elements of a row, after which a block of a tensor may end.
int64_t row_of(const parallel::StateTensor& tensor) {
  return tensor.shape.empty() ? 1 : std::max<int64_t>(1, tensor.shape.back());
}

}  // namespace

/// A ring of blocks in memory that the processes of one host share. A block is filled by all of
/// them in any order, and then emptied by one of them.
class SharedBlocks {
 public:
  /// Creates the blocks; null where not all ranks can open them. Collective.
  static std::unique_ptr<SharedBlocks> share(const comm::Group& group) {
    std::unique_ptr<SharedBlocks> made;
    const auto place = comm::ask_main(group, "share memory", [&] {
      made = make(static_cast<size_t>(group.size()));
      if (!made) return Json();
      return Json{{"path", fmt::format("/proc/{}/fd/{}", ::getpid(), made->fd_)},
                  {"key", made->key_}};
    });
    if (place.is_null()) return nullptr;
    if (!made) made = open(place["path"], place["key"], static_cast<size_t>(group.size()));
    auto shared = at::full({1}, made ? 0 : 1, at::kLong);
    group.all_reduce(shared, comm::ReduceOp::Max, "share memory");
    return comm::item<int64_t>(shared) == 0 ? std::move(made) : nullptr;
  }

  ~SharedBlocks() {
    if (memory_ != MAP_FAILED) ::munmap(memory_, bytes_);
    ::close(fd_);
  }
  SharedBlocks(const SharedBlocks&) = delete;
  SharedBlocks& operator=(const SharedBlocks&) = delete;

  /// Waits until the block of `turn` may be filled, or was emptied as others had filled all of it.
  /// Returns null where a rank gave up.
  char* wait_free(size_t turn, const std::function<void()>& between) {
    auto& slot = slot_of(turn);
    const bool free =
        wait([&] { return slot.round.load(std::memory_order_acquire) >= turn / slots_; }, between);
    return free ? data_of(turn) : nullptr;
  }
  void filled(size_t turn, size_t bytes) {
    slot_of(turn).filled.fetch_add(bytes, std::memory_order_release);
  }
  /// Waits until all bytes of the block are there. Returns false where a rank gave up.
  bool wait_full(size_t turn, size_t bytes, const std::function<void()>& between) {
    auto& slot = slot_of(turn);
    return wait([&] { return slot.filled.load(std::memory_order_acquire) == bytes; }, between);
  }
  void emptied(size_t turn) {
    auto& slot = slot_of(turn);
    slot.filled.store(0, std::memory_order_relaxed);
    slot.round.fetch_add(1, std::memory_order_release);
  }
  void abandon() noexcept { header().abandoned = 1; }

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> round, filled;
  };
  struct Header {
    std::atomic<uint64_t> key;
    std::atomic<uint32_t> abandoned;
    std::array<Slot, kMostSlots> slots;
  };
  static constexpr size_t kHeaderBytes = 8192;
  static_assert(sizeof(Header) <= kHeaderBytes);
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  SharedBlocks(int fd, size_t ranks)
      : fd_(fd),
        slots_(std::min(4 * ranks, kMostSlots)),
        bytes_(kHeaderBytes + slots_ * kBlockBytes) {}

  static std::unique_ptr<SharedBlocks> make(size_t ranks) {
    const int fd = ::memfd_create("convoy-save", MFD_CLOEXEC);
    if (fd < 0) return nullptr;
    std::unique_ptr<SharedBlocks> made(new SharedBlocks(fd, ranks));
    if (::ftruncate(fd, static_cast<off_t>(made->bytes_)) != 0 || !made->map()) return nullptr;
    std::random_device random;
    made->key_ = uint64_t{random()} << 32 | random();
    made->header().key = made->key_;
    return made;
  }

  static std::unique_ptr<SharedBlocks> open(const std::string& path, uint64_t key, size_t ranks) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return nullptr;
    std::unique_ptr<SharedBlocks> opened(new SharedBlocks(fd, ranks));
    struct stat file{};
    const bool whole = ::fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                       static_cast<size_t>(file.st_size) == opened->bytes_;
    // The number of a process may be another's in its container.
    return whole && opened->map() && opened->header().key == key ? std::move(opened) : nullptr;
  }

  bool map() {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    return memory_ != MAP_FAILED;
  }
  Header& header() { return *static_cast<Header*>(memory_); }
  Slot& slot_of(size_t turn) { return header().slots[turn % slots_]; }
  char* data_of(size_t turn) {
    return static_cast<char*>(memory_) + kHeaderBytes + turn % slots_ * kBlockBytes;
  }

  template <class IsOver>
  bool wait(const IsOver& is_over, const std::function<void()>& between) {
    constexpr int kYields = 20;
    for (int tries = 0; !is_over(); ++tries) {
      if (header().abandoned != 0) return false;
      between();
      if (tries < kYields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    return true;
  }

  int fd_;
  size_t slots_, bytes_;
  void* memory_ = MAP_FAILED;
  uint64_t key_ = 0;
};

CollectiveBuffering::CollectiveBuffering(State& state, const comm::Group& group)
    : writes_(group.rank() == 0) {
  if (group.size() == 1) return;
  const auto tensors = static_cast<int64_t>(state.size());
  auto told = at::zeros({2, tensors}, at::kLong);
  auto* elements = told.mutable_data_ptr<int64_t>();
  auto* cut = elements + tensors;
  for (size_t t = 0; t < state.size(); ++t) {
    for (const auto& piece : state[t].pieces) {
      if (piece.held || !piece.values.is_cpu()) continue;  // so that the sum below is not all
      elements[t] += piece.rows() * piece.length();
      const auto row = static_cast<size_t>(piece.length()) * width_of(state[t]);
      if (piece.rows() > 1 && piece.stride != piece.length() && row < kLongRow) cut[t] = 1;
    }
  }
  group.all_reduce(told, comm::ReduceOp::Sum, "look for rows that are cut");
  for (size_t t = 0; t < state.size(); ++t) {
    const auto row = row_of(state[t]);
    const auto bytes = static_cast<size_t>(row) * width_of(state[t]);
    if (cut[t] == 0 || elements[t] != elements_of(state[t]) || bytes > kBlockBytes) continue;
    const auto some = static_cast<int64_t>(kBlockBytes / bytes) * row;
    for (int64_t begin = 0; begin < elements[t]; begin += some) {
      blocks_.push_back({t, begin, std::min(begin + some, elements[t])});
    }
  }
  if (blocks_.empty()) return;
  shared_ = SharedBlocks::share(group);
  if (!shared_) {
    blocks_.clear();
    return;
  }
  tensors_.resize(state.size());
  for (const auto& block : blocks_) {
    if (!tensors_[block.tensor].shape.empty()) continue;
    tensors_[block.tensor] = state[block.tensor];
    state[block.tensor].pieces.clear();
  }
}

CollectiveBuffering::~CollectiveBuffering() = default;

size_t CollectiveBuffering::fill(const Block& block, char* to) const {
  const auto& tensor = tensors_[block.tensor];
  const auto width = width_of(tensor);
  size_t bytes = 0;
  for (const auto& piece : tensor.pieces) {
    const int64_t length = piece.length(), stride = std::max<int64_t>(piece.stride, 1);
    const int64_t last = piece.begin + (piece.rows() - 1) * piece.stride + length;
    if (piece.begin >= block.end || last <= block.begin) continue;
    // The piece's rows, or elements, that lie in the block.
    const int64_t count = piece.values.size(0), row = piece.stride == 0 ? 1 : length;
    const int64_t before = block.begin - piece.begin - row;
    const auto first = before < 0 ? 0 : std::min(before / stride + 1, count);
    const auto end = std::clamp<int64_t>(at::divup(block.end - piece.begin, stride), first, count);
    const auto part = piece.part(first, end - first);
    const auto values = part.on_host();
    const auto* from = static_cast<const char*>(values.const_data_ptr());
    parallel::each_row(part, [&](int64_t begin, int64_t at, int64_t elements) {
      const auto low = std::max(begin, block.begin);
      const auto high = std::min(begin + elements, block.end);
      if (low >= high) return;
      const auto some = static_cast<size_t>(high - low) * width;
      std::memcpy(to + static_cast<size_t>(low - block.begin) * width,
                  from + static_cast<size_t>(at + low - begin) * width, some);
      bytes += some;
    });
  }
  return bytes;
}

void CollectiveBuffering::run(const Write& write, const std::function<void()>& between) try {
  for (size_t turn = 0; turn < blocks_.size(); ++turn) {
    const auto& next = blocks_[turn];
    char* data = shared_->wait_free(turn, between);
    if (data == nullptr) return;
    shared_->filled(turn, fill(next, data));
    if (!writes_) continue;
    const auto& tensor = tensors_[next.tensor];
    const auto elements = next.end - next.begin;
    if (!shared_->wait_full(turn, static_cast<size_t>(elements) * width_of(tensor), between))
      return;
    write(next.tensor, next.begin, at::from_blob(data, {elements}, tensor.dtype));
    shared_->emptied(turn);
  }
} catch (...) {
  abandon();
  throw;
}

void CollectiveBuffering::abandon() noexcept {
  if (shared_) shared_->abandon();
}

}  // namespace convoy::checkpoint
