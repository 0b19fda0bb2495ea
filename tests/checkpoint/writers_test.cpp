#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

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

CheckpointTensors halves(int rank, std::function<void()> first, ConnectWriters connect) {
  return {.folder = "out",
          .weights = half("w", rank),
          .moments = half("m", rank),
          .max_shard_bytes = 1 << 20,
          .beside = true,
          .first = std::move(first),
          .connect = std::move(connect)};
}

class Writers : public testing::Test {
 protected:
  ~Writers() override { fs::remove_all(folder_); }

  /// Two ranks with a folder "out" each, which stand for two hosts: threads with a working folder
  /// of their own. `work` gets the group of all, and what connects writers.
  void run(const std::function<void(const comm::Group&, const ConnectWriters&)>& work,
           std::chrono::seconds timeout = std::chrono::seconds(20)) const {
    const int port = unused_port();
    comm::run_threads(2, [&](int rank) {
      const auto own = folder_ / std::to_string(rank);
      make_folder(own / "out");
      ASSERT_EQ(::unshare(CLONE_FS), 0);
      ASSERT_EQ(::chdir(own.c_str()), 0);
      comm::StoreAddress point{.rank = rank, .size = 2, .port = port, .timeout = timeout};
      const auto store = comm::open_store(point);
      const auto group = [&](const char* name) {
        return comm::make_gloo_group(point, c10::make_intrusive<c10d::PrefixStore>(name, store));
      };
      const auto all = group("all");
      point.patience = std::chrono::hours(1);
      const auto writers = group("writers");
      work(all, [&](const std::vector<int>& ranks) {
        EXPECT_EQ(ranks, (std::vector{0, 1}));
        return writers;
      });
    });
  }

  const fs::path folder_ = unique_folder("convoy-writers");
};

TEST_F(Writers, PiecesOfRanksElsewhereDoNotDelayTheTrainingsMessages) {
  std::promise<void> trained;
  const auto until_trained = trained.get_future().share();
  std::atomic<int> steps{0};
  run([&](const comm::Group& group, const ConnectWriters& connect) {
    const int rank = group.rank();
    const auto before = group.traffic().bytes;
    BackgroundSave save(halves(rank, [&] { until_trained.wait(); }, connect), group);
    // Nothing is written before these steps are over.
    for (int step = 0; step < 3; ++step) group.barrier("step");
    EXPECT_FALSE(save.done());
    if (++steps == 2) trained.set_value();
    save.finish();
    EXPECT_LT(group.traffic().bytes - before, kElements) << "of " << 8 * kElements << " in all";
  });
  const formats::SafetensorsFolder weights(folder_ / "0/out");
  const formats::SafetensorsFile moments(folder_ / "0/out/optimizer.safetensors");
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
    const auto first = [&] {
      if (rank == 0) fail<FileError>("test", "the disk is full");
    };
    BackgroundSave save(halves(rank, first, connect), group);
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

// What rank 0 has to write itself may take longer than a collective may wait.
TEST_F(Writers, RanksElsewhereWaitForTheDiskOfRankZero) {
  std::atomic<int> finished{0};
  run(
      [&](const comm::Group& group, const ConnectWriters& connect) {
        const int rank = group.rank();
        const auto first = [&] {
          if (rank == 0) std::this_thread::sleep_for(std::chrono::seconds(4));
        };
        BackgroundSave save(halves(rank, first, connect), group);
        save.finish();
        ++finished;
      },
      std::chrono::seconds(2));
  EXPECT_EQ(finished, 2);
  EXPECT_EQ(formats::SafetensorsFolder(folder_ / "0/out").tensors().size(), 1U);
}

/// Bytes that this process has handed to files so far.
int64_t bytes_written() {
  std::ifstream file("/proc/self/io");
  for (std::string word; file >> word;) {
    int64_t bytes = 0;
    if (word == "wchar:" && file >> bytes) return bytes;
  }
  return -1;
}

// After an error of one rank nobody waits for what it had still to write.
TEST(BackgroundSave, StopsWritingWhenGivenUp) {
  const auto folder = unique_folder("convoy-writers");
  constexpr int64_t kMany = 32 << 20;
  parallel::StateTensor tensor{"w", {kMany}};
  tensor.pieces.push_back({0, at::zeros({kMany})});
  std::promise<void> begun, given_up;
  const auto before = bytes_written();
  std::jthread later;
  {
    BackgroundSave save({.folder = folder,
                         .weights = {tensor},
                         .moments = {tensor},
                         .max_shard_bytes = int64_t{1} << 40,
                         .first =
                             [&] {
                               begun.set_value();
                               given_up.get_future().wait();
                             }},
                        {});
    begun.get_future().wait();
    later = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      given_up.set_value();
    });
  }
  EXPECT_LT(bytes_written() - before, 4 << 20);
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace convoy::checkpoint
