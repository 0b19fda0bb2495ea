#include "convoy/parallel/strategy/workers.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <gtest/gtest.h>

#include <system_error>

#include "tests/base/few_threads.h"

namespace convoy::parallel {
namespace {

using Guard = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;

TEST(Workers, EachThreadComputesOnItsDevice) {
  static const Guard guard;
  auto& registered =
      c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)];
  registered.store(&guard);
  {
    const std::vector<at::Device> devices{{at::kCUDA, 0}, {at::kCUDA, 3}, {at::kCUDA, 1}};
    Workers workers(devices, 2);
    std::vector<int> current(3, -1), threads(3, 0);
    workers.run(
        [&](int index) {
          current[static_cast<size_t>(index)] = guard.getDevice().index();
          threads[static_cast<size_t>(index)] = at::get_num_threads();
        },
        [] {});
    EXPECT_EQ(current, (std::vector<int>{0, 3, 1}));
    EXPECT_EQ(threads, (std::vector<int>{2, 2, 2}));
    EXPECT_EQ(guard.getDevice().index(), 0);
  }
  registered.store(nullptr);
}

TEST(Workers, AThreadThatCannotStartIsAnError) {
  const FewThreads two(2);
  EXPECT_THROW(Workers(std::vector<at::Device>(3, at::kCPU), 1), std::system_error);
}

}  // namespace
}  // namespace convoy::parallel
