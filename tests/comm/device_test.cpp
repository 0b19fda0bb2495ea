#include "convoy/comm/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <gtest/gtest.h>

#include "convoy/comm/nccl_support.h"

namespace convoy::comm {
namespace {

/// The allocator of a GPU that has given 3000 bytes at most.
class FakeAllocator : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t) override { return {}; }
  void copy_data(void*, const void*, std::size_t) const override {}
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = 1000;
    stats.allocated_bytes[0].peak = 3000 + index;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
};

TEST(Device, PeakIsThatOfTheAllocator) {
  static FakeAllocator allocator;
  c10::SetAllocator(at::kCUDA, &allocator);
  EXPECT_EQ(peak_device_bytes(at::Device(at::kCUDA, 1)), 3001);
  EXPECT_EQ(peak_device_bytes(at::kCPU), 0);

  EXPECT_EQ(device_peaks(), "");
  static const c10::impl::FakeGuardImpl<c10::DeviceType::CUDA> guard;
  auto& registered =
      c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)];
  registered.store(&guard);
  EXPECT_EQ(
      device_peaks().substr(0, 85),
      "; tensors took up to 2.93 KiB of GPU 0; tensors took up to 2.93 KiB of GPU 1; tensors");
  registered.store(nullptr);
}

TEST(Device, HostAnswersWithNothing) {
  use_device(at::kCPU);
  EXPECT_EQ(identity(at::kCPU), "");
  auto tensor = at::ones({3});
  EXPECT_TRUE(upload(tensor, at::kCPU).is_same(tensor));
}

TEST(NcclSupport, EveryRankNeedsAGpuOfItsOwn) {
  EXPECT_EQ(why_not_nccl({{"", "GPU-a"}, {"", "GPU-b"}}), "");
  EXPECT_EQ(why_not_nccl({{"", ""}, {"", ""}}), "");  // unknown: as the launcher says
  EXPECT_EQ(why_not_nccl({{"", "GPU-a"}, {"", "GPU-b"}, {"", "GPU-a"}}),
            "ranks 0 and 2 share a GPU");
  EXPECT_EQ(why_not_nccl({{"", "GPU-a"}, {"there is no plugin", "GPU-b"}}),
            "rank 1: there is no plugin");
}

}  // namespace
}  // namespace convoy::comm
