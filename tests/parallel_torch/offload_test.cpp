#include "convoy/parallel/offload/torch/offload.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "convoy/base/files.h"
#include "tests/parallel_torch/pipeline_testing.h"

namespace convoy::parallel {
namespace {

using parallel::Kind;

// As after a loss that is not finite: the first state of the update is on its way then.
TEST(Offload, NothingIsReadIntoMemoryThatIsGone) {
  constexpr int64_t kElements = 64 << 20;
  const auto folder = unique_folder("convoy-offload-test");
  at::Tensor other;  // keeps the file, whose threads go on
  {
    const parallel::Layout layout(
        {{{0}, {1}}, {}, {false, false}}, {{{{kElements}}}, {{{32}}}},
        {.parallelism = {.bucket_bytes = 0, .offload = {.optimizer = Place::Cpu}}});
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

/// Bytes that this process has read and written so far, by its calls of the system.
int64_t bytes_moved() {
  std::ifstream file("/proc/self/io");
  int64_t moved = 0, value = 0;
  for (std::string name; file >> name >> value;) {
    if (name == "rchar:" || name == "wchar:") moved += value;
  }
  return moved;
}

// A bucket holds many parameters: of each, it would be read and written.
TEST(Offload, FirstValuesMoveABucketOnce) {
  const auto folder = unique_folder("convoy-offload-test");
  const PipelineTrial trial{.dtype = at::kBFloat16, .layers = 6};
  auto options = trial.options();
  options.parallelism.offload = {.optimizer = Place::Disk, .folder = folder};
  run_pipeline_ranks(1, 1, std::chrono::seconds(60), [&](const comm::Groups& groups, int) {
    Replica replica(trial.blocks(), groups, options);
    const auto& layout = replica.flat().layout();
    EXPECT_LT(layout.num_buckets(), 3);
    const auto before = bytes_moved();
    replica.start();
    const auto moved = bytes_moved() - before;
    const auto masters = 4 * layout.kept(Kind::Masters);
    EXPECT_GE(moved, masters);
    // Read, written, and read again for the 16 bits; a bucket's parameters are dozens. Whatever
    // else the process does is counted, too.
    EXPECT_LE(moved, 8 * masters);
  });
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace convoy::parallel
