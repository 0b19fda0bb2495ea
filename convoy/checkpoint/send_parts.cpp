#include "convoy/checkpoint/send_parts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "convoy/base/fault.h"

namespace convoy::checkpoint {

namespace {

constexpr const char* kSend = "send parts of a memory copy";
constexpr int64_t kSentAtOnce = int64_t{16} << 20;

/// Walks over the bytes of ranges, one range after the other.
class RangeWalk {
 public:
  RangeWalk(const std::vector<CopyRange>& ranges, const MappedSlot& slot)
      : ranges_(ranges), slot_(slot) {}

  /// Calls `use` with the next `bytes` in the slot: where some lie, how many come before them in
  /// this call, and how many they are.
  template <class Use>
  void next(size_t bytes, const Use& use) {
    for (size_t done = 0; done < bytes;) {
      const auto& range = ranges_[range_];
      const auto some = std::min(bytes - done, range.bytes - at_);
      use(slot_.file(range.file) + range.begin + at_, done, some);
      done += some;
      at_ += some;
      if (at_ < range.bytes) continue;
      ++range_;
      at_ = 0;
    }
  }

 private:
  const std::vector<CopyRange>& ranges_;
  const MappedSlot& slot_;
  size_t range_ = 0, at_ = 0;
};

/// Returns the ranges of rank `root`, which has `count` of them.
std::vector<CopyRange> tell_ranges(const std::vector<CopyRange>& own, int root, int64_t count,
                                   const comm::Group& group) {
  auto table = at::empty({count, 3}, at::kLong);
  if (group.rank() == root) {
    auto* number = table.mutable_data_ptr<int64_t>();
    for (const auto& range : own) {
      for (const auto value : {range.file, range.begin, range.bytes}) {
        *number++ = static_cast<int64_t>(value);
      }
    }
  }
  group.broadcast(table, root, kSend);
  std::vector<CopyRange> out;
  const auto* number = table.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i, number += 3) {
    out.push_back({static_cast<size_t>(number[0]), static_cast<size_t>(number[1]),
                   static_cast<size_t>(number[2])});
  }
  return out;
}

/// Sends what lies in `ranges` of rank `root`'s slot; ranks that take it put it into their own.
void send_bytes_of(const std::vector<CopyRange>& ranges, int root, bool takes,
                   const MappedSlot& slot, const comm::Group& group) {
  int64_t left = 0;
  for (const auto& range : ranges) left += static_cast<int64_t>(range.bytes);
  const auto buffer = at::empty({std::min(left, kSentAtOnce)}, at::kByte);
  RangeWalk walk(ranges, slot);
  while (left > 0) {
    const auto some = std::min(left, kSentAtOnce);
    auto part = buffer.narrow(0, 0, some);
    auto* bytes = static_cast<std::byte*>(part.data_ptr());
    if (group.rank() == root) {
      walk.next(static_cast<size_t>(some), [&](std::byte* in_slot, size_t before, size_t length) {
        std::memcpy(bytes + before, in_slot, length);
      });
    }
    group.broadcast(part, root, kSend);
    if (takes) {
      walk.next(static_cast<size_t>(some), [&](std::byte* in_slot, size_t before, size_t length) {
        std::memcpy(in_slot, bytes + before, length);
      });
    }
    left -= some;
  }
}

}  // namespace

void add_ranges(std::vector<CopyRange>& ranges, size_t file, size_t home,
                const parallel::StatePiece& piece) {
  const auto width = piece.values.element_size();
  parallel::each_row(piece, [&](int64_t first, int64_t /*at*/, int64_t length) {
    const auto begin = home + static_cast<size_t>(first) * width;
    const auto bytes = static_cast<size_t>(length) * width;
    if (bytes == 0) return;
    const bool touches = !ranges.empty() && ranges.back().file == file &&
                         ranges.back().begin + ranges.back().bytes == begin;
    if (touches) {
      ranges.back().bytes += bytes;
    } else {
      ranges.push_back({file, begin, bytes});
    }
  });
}

void send_parts(const std::vector<CopyRange>& ranges, const MappedSlot& slot,
                const HostPlace& place, const comm::Group& group) {
  auto told = at::zeros({group.size(), 2}, at::kLong);
  told[group.rank()][0] = place.host;
  told[group.rank()][1] = std::ssize(ranges);
  group.all_reduce(told, comm::ReduceOp::Sum, kSend);
  const auto* number = told.const_data_ptr<int64_t>();
  for (int root = 0; root < group.size(); ++root, number += 2) {
    if (root == group.size() / 2) fault_at("copy_send");
    if (number[1] == 0) continue;
    const bool takes = place.is_first() && number[0] != place.host;
    send_bytes_of(tell_ranges(ranges, root, number[1], group), root, takes, slot, group);
  }
}

}  // namespace convoy::checkpoint
