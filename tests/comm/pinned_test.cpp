#include "convoy/comm/pinned.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>

// CUDA's runtime, where the program has none: it notes what is pinned. `pinned_bytes` finds it as
// it finds torch's, so the tests are linked with their symbols exported.
namespace {

std::atomic<size_t> pinned{0};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int cudaHostRegister(void* memory, size_t bytes, unsigned) {
  pinned += memory == nullptr ? 0 : bytes;
  return 0;
}
__attribute__((visibility("default"))) int cudaHostUnregister(void*) {
  pinned = 0;
  return 0;
}

}  // extern "C"

namespace convoy::comm {
namespace {

// Torch's own pool would take a power of two: nearly twice as much.
TEST(Pinned, AllocatesExactlyTheBytesAskedFor) {
  for (const int64_t bytes : {int64_t{1}, int64_t{4096}, (int64_t{1} << 20) + 1}) {
    {
      auto memory = pinned_bytes(bytes);
      EXPECT_EQ(memory.numel(), bytes);
      EXPECT_EQ(memory.scalar_type(), at::kByte);
      EXPECT_EQ(static_cast<int64_t>(pinned.load()), bytes);
      memory.fill_(7);
      EXPECT_EQ(memory.sum().item<int64_t>(), 7 * bytes);
    }
    EXPECT_EQ(pinned, 0u) << "it goes with the last who has it";
  }
}

TEST(Pinned, RoundsHoldEveryByteOnceAndNoMoreThanTheyHaveRoomFor) {
  const std::vector<int64_t> sizes{10, 0, 64, 3, 200, 1};
  for (const int64_t room : {1, 7, 64, 1000}) {
    std::vector<int64_t> next(sizes.size());
    const auto rounds = rounds_of(sizes, room);
    EXPECT_EQ(std::ssize(rounds), (278 + room - 1) / room) << room;
    for (const auto& round : rounds) {
      int64_t held = 0;
      for (const auto& piece : round) {
        EXPECT_EQ(piece.begin, next[piece.tensor]);
        next[piece.tensor] += piece.bytes;
        held += piece.bytes;
      }
      EXPECT_LE(held, room);
    }
    EXPECT_EQ(next, sizes) << room;
  }
  EXPECT_TRUE(rounds_of({0}, 4).empty());
}

TEST(Pinned, TensorsOfManySizesAndTypesArriveWhole) {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
    for (const int64_t size : {1, 3, 100, 4097}) {
      const auto from = at::arange(size).to(dtype);
      copies.emplace_back(from, at::full_like(from, 7));
    }
  }
  copies.emplace_back(at::empty({0}), at::empty({0}));
  for (const int64_t room : {48, 4096, 1 << 20}) {
    for (auto& [from, to] : copies) to.fill_(7);
    download_all(copies, room);
    for (const auto& [from, to] : copies) EXPECT_TRUE(at::equal(from, to)) << from.sizes();
  }
}

}  // namespace
}  // namespace convoy::comm
