#include "convoy/checkpoint/collective_buffering.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::checkpoint {
namespace {

/// Dimension `dim` of `whole`, which is `[..]`, cut at `cuts`: the part of `rank`.
parallel::StatePiece cut(const at::Tensor& whole, int64_t dim, const std::vector<int64_t>& cuts,
                         size_t rank) {
  const auto inner = c10::multiply_integers(whole.sizes().slice(static_cast<size_t>(dim) + 1));
  const auto all = whole.view({-1, whole.size(dim) * inner});
  const auto from = cuts[rank] * inner, to = cuts[rank + 1] * inner;
  return {.begin = from,
          .values = all.slice(1, from, to).contiguous(),
          .stride = whole.size(dim) * inner};
}

parallel::StateTensor tensor_of(const char* name, const at::Tensor& whole) {
  return {name, whole.sizes().vec(), whole.scalar_type(), {}};
}

/// The values of some tensors, put together from what all ranks' run() wrote, each element once.
class Written {
 public:
  explicit Written(const std::vector<at::Tensor>& wholes) {
    for (const auto& whole : wholes) {
      values.push_back(at::zeros({whole.numel()}, whole.options()));
      times.push_back(at::zeros({whole.numel()}, at::kLong));
    }
  }

  void add(size_t tensor, int64_t begin, const at::Tensor& part) {
    values[tensor].narrow(0, begin, part.numel()).copy_(part);
    times[tensor].narrow(0, begin, part.numel()) += 1;
  }

  std::vector<at::Tensor> values, times;
};

TEST(CollectiveBuffering, BlocksOfWholeRowsArriveOnceWhateverTheCut) {
  const std::vector wholes{
      at::arange(700 * 1001, at::kFloat).view({700, 1001}),  // odd rows, more than one block
      at::arange(5 * 30 * 64, at::kDouble).view({5, 30, 64}),
      at::arange(300'000, at::kFloat).view({1, 300'000}),  // rows beyond a block
      at::arange(64, at::kFloat).view({8, 8}),
      at::arange(40 * 6, at::kLong).view({40, 6}),
  };
  for (const int size : {2, 3, 5}) {  // of five ranks two have nothing
    Written written(wholes);
    std::vector<std::vector<parallel::StatePiece>> left(static_cast<size_t>(size));
    std::mutex mutex;
    comm::run_thread_ranks(size, [&](const comm::Group& group) {
      const auto rank = static_cast<size_t>(group.rank());
      const auto at = [&](int64_t middle, int64_t all) {
        return size == 2 ? std::vector<int64_t>{0, middle, all}
                         : std::vector<int64_t>{0, middle, middle + 1, all};
      };
      parallel::State state;
      for (size_t t = 0; t < wholes.size(); ++t) {
        state.push_back(tensor_of("w", wholes[t]));
        if (rank > 2) continue;
        auto& pieces = state.back().pieces;
        if (t == 0) pieces = {cut(wholes[t], 1, at(77, 1001), rank)};
        if (t == 1) pieces = {cut(wholes[t], 1, at(11, 30), rank)};
        if (t == 2) pieces = {cut(wholes[t], 1, at(77, 300'000), rank)};
        if (t == 3 && rank == 0) pieces = {{0, wholes[t].view({-1})}};
        if (t == 4) {  // rank 0 has its rows in two pieces, as replicas that share the writing do
          const auto all = cut(wholes[t], 1, at(2, 6), rank);
          pieces = {all};
          if (rank == 0) pieces = {all.part(0, 13), all.part(13, 27)};
        }
      }
      CollectiveBuffering buffering(state, group);
      left[rank] = state[2].pieces;
      EXPECT_TRUE(state[0].pieces.empty() && state[1].pieces.empty() && state[4].pieces.empty());
      EXPECT_EQ(state[3].pieces.size(), rank == 0 ? 1U : 0U);
      buffering.run(
          [&](size_t tensor, int64_t begin, const at::Tensor& values) {
            const std::lock_guard lock(mutex);
            written.add(tensor, begin, values);
          },
          [] {});
    });
    for (const size_t t : {0, 1, 4}) {
      EXPECT_TRUE(at::equal(written.values[t], wholes[t].view({-1}))) << t;
      EXPECT_TRUE((written.times[t] == 1).all().item<bool>()) << t;
    }
    // Left to the ranks: a matrix of one row is not cut, and what one rank has.
    EXPECT_EQ(written.times[2].sum().item<int64_t>() + written.times[3].sum().item<int64_t>(), 0);
    for (int r = 0; r < std::min(size, 3); ++r) {
      EXPECT_EQ(left[static_cast<size_t>(r)].size(), 1U);
    }
  }
}

/// What a rank of two does in a process of its own: 0 where it wrote what all have.
int rank_of_two(int rank, int port) {
  const comm::StoreAddress point{
      .rank = rank, .size = 2, .port = port, .timeout = std::chrono::seconds(20)};
  const auto group = comm::make_gloo_group(point, comm::open_store(point));
  const auto whole = at::arange(40 * 6, at::kFloat).view({40, 6});
  parallel::State state{tensor_of("w", whole)};
  state[0].pieces = {cut(whole, 1, {0, 2, 6}, static_cast<size_t>(rank))};
  CollectiveBuffering buffering(state, group);
  Written written({whole});
  buffering.run([&](size_t tensor, int64_t begin,
                    const at::Tensor& values) { written.add(tensor, begin, values); },
                [] {});
  const bool all = rank != 0 || at::equal(written.values[0], whole.view({-1}));
  return state[0].pieces.empty() && all ? 0 : 1;
}

TEST(CollectiveBuffering, ProcessesOpenEachOthersMemory) {
  const int port = unused_port();
  const auto begin = [&](int rank) {
    return std::async(std::launch::async, [=] {
      return std::system(fmt::format("CONVOY_TEST_RANK={} CONVOY_TEST_PORT={} /proc/{}/exe "
                                     "--gtest_also_run_disabled_tests "
                                     "--gtest_filter='*.DISABLED_ARank' > /dev/null",
                                     rank, port, ::getpid())
                             .c_str());
    });
  };
  auto first = begin(0), second = begin(1);
  EXPECT_EQ(first.get(), 0);
  EXPECT_EQ(second.get(), 0);
}

// Of the test before.
TEST(CollectiveBuffering, DISABLED_ARank) {
  const char *rank = std::getenv("CONVOY_TEST_RANK"), *port = std::getenv("CONVOY_TEST_PORT");
  if (rank == nullptr || port == nullptr) GTEST_SKIP() << "a process of another test";
  EXPECT_EQ(rank_of_two(std::atoi(rank), std::atoi(port)), 0);
}

TEST(CollectiveBuffering, ElementsThatNobodyOwnsAreNotWaitedFor) {
  const auto whole = at::arange(200, at::kFloat).view({20, 10});
  comm::run_thread_ranks(2, [&](const comm::Group& group) {
    parallel::State state{tensor_of("w", whole)};
    if (group.rank() == 0) state[0].pieces = {cut(whole, 1, {0, 4, 10}, 0)};
    CollectiveBuffering buffering(state, group);
    EXPECT_EQ(state[0].pieces.size(), group.rank() == 0 ? 1U : 0U);
    buffering.run([](auto, auto, const auto&) { FAIL(); }, [] {});
  });
}

TEST(CollectiveBuffering, FailedOrStoppedRankBlocksNobody) {
  const auto whole = at::zeros({4000, 2001});
  for (const bool stopped : {false, true}) {
    std::atomic<int> failed{0}, over{0};
    comm::run_thread_ranks(3, [&](const comm::Group& group) {
      const auto rank = static_cast<size_t>(group.rank());
      parallel::State state{tensor_of("w", whole)};
      state[0].pieces = {cut(whole, 1, {0, 500, 1000, 2001}, rank)};
      CollectiveBuffering buffering(state, group);
      if (stopped && rank == 2) return;  // it has ended; the others are told by their group
      try {
        buffering.run(
            [&](auto, auto, const auto&) {
              if (rank == 0 && !stopped) fail<FileError>("test", "the disk is full");
            },
            [&, until = std::chrono::steady_clock::now() + std::chrono::milliseconds(300)] {
              if (stopped && std::chrono::steady_clock::now() > until) {
                fail<Error>("test", "given up");
              }
            });
      } catch (const Error&) {
        ++failed;
      }
      ++over;
    });
    EXPECT_EQ(over, stopped ? 2 : 3);
    EXPECT_GE(failed, 1);
  }
}

}  // namespace
}  // namespace convoy::checkpoint
