#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "convoy/comm/gloo/gloo_engine.h"
#include "convoy/comm/store.h"
#include "convoy/comm/thread/thread_engine.h"
#include "tests/base/unused_port.h"

// Ranks that are threads of the test.
namespace convoy::comm {

/// A thread for each rank; returns when all have ended.
inline void run_threads(int size, const std::function<void(int rank)>& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { work(rank); });
  for (auto& thread : threads) thread.join();
}

/// With the thread engine.
inline void run_thread_ranks(int size, const std::function<void(Group)>& work,
                             std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  auto groups = make_thread_groups(size, timeout);
  run_threads(size, [&](int rank) { work(groups[static_cast<size_t>(rank)]); });
}

/// With Gloo, over loopback.
inline void run_gloo_ranks(int size, const std::function<void(Group)>& work,
                           std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const int port = unused_port();
  run_threads(size, [&](int rank) {
    const StoreAddress point{.rank = rank, .size = size, .port = port, .timeout = timeout};
    work(make_gloo_group(point, open_store(point)));
  });
}

/// What every engine must do with tensors of `count` elements.
inline void expect_collectives(const Group& group, int64_t count) {
  const int size = group.size();
  auto t = at::full({count}, group.rank() + 1, at::kFloat);
  group.all_reduce(t, ReduceOp::Sum, "sum");
  EXPECT_TRUE((t == size * (size + 1) / 2).all().item<bool>());
  auto m = at::full({count}, group.rank() + 1, at::kLong);
  group.all_reduce(m, ReduceOp::Max, "max");
  EXPECT_TRUE((m == size).all().item<bool>());
  auto b = at::full({count}, group.rank(), at::kFloat);
  group.broadcast(b, size - 1, "broadcast");
  EXPECT_TRUE((b == size - 1).all().item<bool>());
}

/// The same for those that cut tensors into parts, equal and unequal, and from rank to rank.
inline void expect_part_collectives(const Group& group) {
  const int size = group.size();
  const int rank = group.rank();
  // Rank r has r + 1 times 1000 elements; all elements are r + 1.
  Counts counts;
  for (int r = 0; r < size; ++r) counts.push_back(1000 * (r + 1));
  for (const bool even : {true, false}) {
    const int64_t own = even ? 1000 : counts[static_cast<size_t>(rank)];
    const int64_t total = even ? 1000 * size : 1000 * size * (size + 1) / 2;
    auto part = at::full({own}, rank + 1, at::kFloat);
    auto all = at::empty({total});
    const auto given = even ? Counts{} : counts;
    group.start_all_gather(all, part, "gather", given).wait();
    int64_t begin = 0, own_begin = 0;
    for (int r = 0; r < size; ++r) {
      const int64_t count = even ? 1000 : counts[static_cast<size_t>(r)];
      if (r == rank) own_begin = begin;
      EXPECT_TRUE((all.narrow(0, begin, count) == r + 1).all().item<bool>()) << r;
      begin += count;
    }
    auto numbers = at::arange(total, at::kFloat).mul(rank + 1);
    auto sums = at::empty({own});
    group.start_reduce_scatter(sums, numbers, ReduceOp::Sum, "scatter", given).wait();
    auto expected = at::arange(own_begin, own_begin + own, at::kFloat).mul(size * (size + 1) / 2);
    EXPECT_TRUE(at::allclose(sums, expected));
    group.start_reduce_scatter(sums, numbers, ReduceOp::Average, "scatter", given).wait();
    EXPECT_TRUE(at::allclose(sums, expected / size));
    group.start_reduce_scatter(sums, numbers, ReduceOp::Add, "add", given).wait();
    EXPECT_TRUE(at::allclose(sums, expected / size + expected));
    auto place = numbers.narrow(0, own_begin, own);
    group.start_reduce_scatter(place, numbers, ReduceOp::Sum, "in its place", given).wait();
    EXPECT_TRUE(at::allclose(place, expected));
  }
  // Rank a sends a * 10 + b, (a + b) times, to rank b.
  Counts send, receive;
  std::vector<at::Tensor> to, from;
  for (int other = 0; other < size; ++other) {
    send.push_back(rank + other);
    receive.push_back(rank + other);
    to.push_back(at::full({rank + other}, rank * 10 + other, at::kInt));
    from.push_back(at::full({rank + other}, other * 10 + rank, at::kInt));
  }
  auto in = at::cat(to);
  auto out = at::empty_like(at::cat(from));
  group.start_all_to_all(out, in, "all to all", receive, send).wait();
  EXPECT_TRUE(at::equal(out, at::cat(from)));

  auto mine = at::full({70000}, rank, at::kBFloat16);
  auto theirs = at::empty_like(mine);
  auto sent = group.start_send(mine, (rank + 1) % size, "activations");
  const int before = (rank + size - 1) % size;
  group.start_receive(theirs, before, "activations").wait();
  sent.wait();
  EXPECT_TRUE((theirs == before).all().item<bool>());

  // Rank r has r rows of r + 1.
  const auto rows = group.gather_rows(at::full({rank, 3}, rank + 1, at::kDouble), "rows");
  EXPECT_EQ(rows.defined(), rank == 0);
  if (rank == 0) {
    ASSERT_EQ(rows.sizes(), (std::vector<int64_t>{size * (size - 1) / 2, 3}));
    EXPECT_EQ(rows.sum().item<double>(), size * (size * size - 1));
  }
  group.barrier("end");
}

}  // namespace convoy::comm
