#include "convoy/comm/gloo/gloo_engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/comm/rendezvous.h"
#include "convoy/comm/within.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

TEST(GlooEngine, Collectives) {
  for (int size : {2, 3}) {
    run_gloo_ranks(size, [size](Group group) {
      EXPECT_EQ(group.engine(), std::string("gloo"));
      for (int64_t count : {1, 7, 1000}) {
        expect_collectives(group, count);
      }
      expect_part_collectives(group);
      auto first = at::ones({100});
      auto second = at::ones({50});
      auto one = group.start_all_reduce(first, ReduceOp::Sum, "first");
      auto two = group.start_all_reduce(second, ReduceOp::Sum, "second");
      two.wait();
      one.wait();
      EXPECT_TRUE((first == size).all().item<bool>() && (second == size).all().item<bool>());
      auto all = group.all_gather(at::tensor({group.rank(), 5}, at::kLong), "gather");
      for (int r = 0; r < size; ++r) EXPECT_EQ(all[r][0].item<int64_t>(), r);
      EXPECT_GT(group.traffic().bytes, 0);
    });
  }
}

/// How many threads of this process take no SIGPIPE.
int threads_without_sigpipe() {
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      count += (std::stoull(line.substr(7), nullptr, 16) >> (SIGPIPE - 1) & 1) != 0;
    }
  }
  return count;
}

TEST(GlooEngine, WritingToARankThatIsGoneIsNoSignal) {
  const int port = unused_port();
  const int before = threads_without_sigpipe();
  run_threads(2, [&](int rank) {
    const auto group = connect({.rank = rank, .size = 2, .port = port}, "gloo", at::kCPU);
    // Each rank's threads that wait for sockets and that carry out collectives.
    EXPECT_GE(threads_without_sigpipe(), before + 3) << rank;
    group.barrier("before anybody leaves");
  });
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  {
    const NoBrokenPipes none;
    EXPECT_EQ(::write(ends[1], "", 1), -1);
    EXPECT_EQ(errno, EPIPE);
  }
  ::close(ends[1]);  // and no signal ends the test
}

TEST(GlooEngine, AMissingRankEndsTheWaitWithTheLabel) {
  run_gloo_ranks(
      2,
      [](Group group) {
        if (group.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(3));
          return;
        }
        auto t = at::ones({10});
        try {
          group.all_reduce(t, ReduceOp::Sum, "reduce block 7");
          ADD_FAILURE() << "nothing was thrown";
        } catch (const CommunicationError& error) {
          EXPECT_NE(std::string(error.what()).find("reduce block 7"), std::string::npos)
              << error.what();
        }
      },
      std::chrono::seconds(1));
}

}  // namespace
}  // namespace convoy::comm
