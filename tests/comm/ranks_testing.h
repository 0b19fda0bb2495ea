#pragma once

#include <ATen/Functions.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "convoy/comm/gloo/gloo_engine.h"
#include "convoy/comm/store.h"
#include "convoy/comm/thread/thread_engine.h"

// Ranks that are threads of the test.
namespace convoy::comm {

inline int free_port() {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

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
  const int port = free_port();
  run_threads(size, [&](int rank) {
    MeetingPoint point;
    point.rank = rank;
    point.size = size;
    point.port = port;
    point.timeout = timeout;
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

}  // namespace convoy::comm
