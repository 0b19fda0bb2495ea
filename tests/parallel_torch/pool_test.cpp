#include "convoy/parallel/offload/torch/pool.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <utility>

namespace convoy::parallel {
namespace {

TEST(Pool, HoldsNoMoreThanWasTakenAtATime) {
  Pool pool;
  auto large = pool.take(100);
  auto small = pool.take(10);
  EXPECT_EQ(pool.num_elements(), 110);
  const void* place = large.data_ptr();
  pool.give(std::move(large));
  large = pool.take(100).fill_(3);
  EXPECT_EQ(large.data_ptr(), place) << "the same memory serves again";
  pool.give(std::move(large));
  const auto view = small.narrow(0, 2, 3);
  pool.give(std::move(small));
  auto other = pool.take(60);
  EXPECT_EQ(pool.num_elements(), 110);
  EXPECT_EQ(other.numel(), 60);
  auto another = pool.take(50);
  EXPECT_EQ(pool.num_elements(), 110);
  EXPECT_EQ(view.storage().data(), nullptr) << "kept by a view";
  pool.give(std::move(other));
  pool.give(std::move(another));
  // Not given back: the pool grows.
  auto lost = pool.take(10);
  auto all = pool.take(110);
  EXPECT_EQ(pool.num_elements(), 120);
}

TEST(Pool, IsNotCountedWhereNoAllocatorCounts) {
  TensorMemory memory;
  EXPECT_FALSE(memory.pool(100));
  EXPECT_EQ(memory.held(), 0);
}

TEST(Pool, IsCountedWhereItsBufferIsTheFirstTensor) {
  TensorMemory memory;
  memory.begin_counting();
  EXPECT_TRUE(memory.pool(100));
  memory.add(100);
  EXPECT_EQ(memory.held(), 0);
}

TEST(Pool, RestoresTheMemoryCountWhenItDies) {
  constexpr int64_t kHeld = 1 << 20;
  tensor_memory.begin_counting();
  tensor_memory.add(kHeld);
  const auto before = tensor_memory.held();
  {
    Pool first;
    auto buffer = first.take(1000);
    EXPECT_LE(tensor_memory.held(), before - 4000);
    Pool second;
    second = std::move(first);
    EXPECT_LE(tensor_memory.held(), before - 4000);
    second.give(std::move(buffer));
    buffer = second.take(500);  // instead of the other
    EXPECT_GT(tensor_memory.held(), before - 4000);
  }
  EXPECT_EQ(tensor_memory.held(), before);
  tensor_memory.add(-kHeld);
}

}  // namespace
}  // namespace convoy::parallel
