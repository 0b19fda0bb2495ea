#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <atomic>
#include <future>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/save.h"
#include "convoy/formats/safetensors_folder.h"
#include "tests/comm/ranks_testing.h"

// Ranks of hosts that share no folder with rank 0.
namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kElements = 100'000;  // of a tensor, a half on each rank

parallel::State half(const std::string& name, int rank) {
  const int64_t begin = rank * kElements / 2;
  parallel::StateTensor tensor{name, {kElements}};
  tensor.pieces.push_back(
      {begin, at::arange(begin, begin + kElements / 2, at::kFloat).add_(name == "w" ? 0 : 1)});
  return {tensor};
}

class Writers : public testing::Test {
 protected:
  ~Writers() override { fs::remove_all(folder_); }

  /// Two ranks with a folder "out" each, which stand for two hosts: threads with a working folder
  /// of their own. `work` gets the group of all, and what connects writers.
  void run(const std::function<void(const comm::Group&, const ConnectWriters&)>& work) const {
    const int port = unused_port();
    comm::run_threads(2, [&](int rank) {
      const auto own = folder_ / std::to_string(rank);
      make_folder(own / "out");
      ASSERT_EQ(::unshare(CLONE_FS), 0);
      ASSERT_EQ(::chdir(own.c_str()), 0);
      const comm::MeetingPoint point{
          .rank = rank, .size = 2, .port = port, .timeout = std::chrono::seconds(20)};
      const auto store = comm::open_store(point);
      const auto group = [&](const char* name) {
        return comm::make_gloo_group(point, c10::make_intrusive<c10d::PrefixStore>(name, store));
      };
      const auto writers = group("writers");
      work(group("all"), [&](const std::vector<int>& ranks) {
        EXPECT_EQ(ranks, (std::vector{0, 1}));
        return writers;
      });
    });
  }

  const fs::path folder_ = unique_folder("convoy-writers");
};

TEST_F(Writers, WhatRanksElsewhereOwnDoesNotStandBeforeTheTrainingsMessages) {
  std::promise<void> trained;
  const auto until_trained = trained.get_future().share();
  std::atomic<int> steps{0};
  run([&](const comm::Group& group, const ConnectWriters& connect) {
    const int rank = group.rank();
    const auto before = group.traffic().bytes;
    BackgroundSave save(
        "out", half("w", rank), 1 << 20, "moments.safetensors", half("m", rank), group,
        /*beside=*/true, [&] { until_trained.wait(); }, connect);
    // Nothing is written before these steps are over.
    for (int step = 0; step < 3; ++step) group.barrier("step");
    EXPECT_FALSE(save.done());
    if (++steps == 2) trained.set_value();
    save.finish();
    EXPECT_LT(group.traffic().bytes - before, kElements) << "of " << 8 * kElements << " in all";
  });
  const formats::SafetensorsFolder weights(folder_ / "0/out");
  const formats::SafetensorsFile moments(folder_ / "0/out/moments.safetensors");
  for (int64_t i = 0; i < kElements; i += 997) {
    EXPECT_EQ(reinterpret_cast<const float*>(weights.bytes("w").data())[i], i);
    EXPECT_EQ(reinterpret_cast<const float*>(moments.bytes("m").data())[i], i + 1);
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "1/out"));
}

TEST_F(Writers, ADiskThatIsFullIsToldByAllAndNobodyWaits) {
  std::atomic<int> told{0};
  run([&](const comm::Group& group, const ConnectWriters& connect) {
    const int rank = group.rank();
    BackgroundSave save(
        "out", half("w", rank), 1 << 20, "moments.safetensors", half("m", rank), group,
        /*beside=*/true,
        [&] {
          if (rank == 0) fail<FileError>("test", "the disk is full");
        },
        connect);
    try {
      save.finish();
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("the disk is full"));
      ++told;
    }
  });
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(fs::is_empty(folder_ / "0/out"));
}

}  // namespace
}  // namespace convoy::checkpoint
