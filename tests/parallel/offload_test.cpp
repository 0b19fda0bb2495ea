#include "convoy/parallel/offload/offload.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "convoy/base/files.h"

namespace convoy::parallel {
namespace {

using schedule::Kind;

// As after a loss that is not finite: the first state of the update is on its way then.
TEST(Offload, NothingIsReadIntoMemoryThatIsGone) {
  constexpr int64_t kElements = 64 << 20;
  const auto folder = unique_folder("convoy-offload-test");
  at::Tensor other;  // keeps the file, whose threads go on
  {
    const schedule::Layout layout({{{0}, {1}}, {}, {false, false}}, {{{{kElements}}}, {{{32}}}},
                                  {.bucket_bytes = 0, .offload_optimizer = true});
    Offload offload(layout, {.optimizer = Place::Disk, .folder = folder}, at::kCPU, at::kFloat,
                    optim::make_optimizer()->states());
    other = offload.view(Kind::Moments, layout.bucket_of(1));
    offload.fetch(Kind::Moments, layout.bucket_of(0));
  }
  // The same memory again, of which the end would be read last.
  auto next = at::empty({2 * kElements});
  auto end = next.narrow(0, 2 * kElements - kElements / 8, kElements / 8).fill_(7);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_TRUE(end.eq(7).all().item<bool>());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace convoy::parallel
