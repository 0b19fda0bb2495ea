#include "convoy/shm/point_to_point.h"

#include <gtest/gtest.h>

#include <thread>

#include "convoy/base/error.h"
#include "convoy/shm/worker.h"
#include "tests/shm/ranks_testing.h"

namespace convoy::shm {
namespace {

TEST(PointToPoint, RanksMaySendToEachOtherBeforeEitherReceives) {
  run_ranks(3, [](auto segment, int rank) {
    PointToPoint peers(segment, rank, kPatience);
    for (size_t count : {0, 1, 16368, 16369, 500000}) {
      std::vector<float> mine(count, static_cast<float>(rank));
      std::vector<std::vector<float>> theirs(3, std::vector<float>(count, -1));
      std::vector<std::shared_ptr<Ticket>> tickets;
      for (int other = 0; other < 3; ++other) {
        if (other == rank) continue;
        tickets.push_back(peers.send(mine.data(), count, Dtype::F32, other, "activations"));
      }
      for (int other = 0; other < 3; ++other) {
        if (other == rank) continue;
        tickets.push_back(peers.receive(theirs[static_cast<size_t>(other)].data(), count,
                                        Dtype::F32, other, "activations"));
      }
      for (auto& ticket : tickets) ticket->wait();
      for (int other = 0; other < 3; ++other) {
        if (other == rank) continue;
        EXPECT_EQ(theirs[static_cast<size_t>(other)],
                  std::vector<float>(count, static_cast<float>(other)));
      }
    }
  });
}

TEST(PointToPoint, KeepsTheOrderBetweenTwoRanks) {
  run_ranks(2, [](auto segment, int rank) {
    PointToPoint peers(segment, rank, kPatience);
    std::vector<int32_t> values(2000);
    std::vector<std::shared_ptr<Ticket>> tickets;
    for (int32_t i = 0; i < 2000; ++i) {
      auto& value = values[static_cast<size_t>(i)];
      if (rank == 0) value = i;
      tickets.push_back(rank == 0 ? peers.send(&value, 1, Dtype::I32, 1, "number")
                                  : peers.receive(&value, 1, Dtype::I32, 0, "number"));
    }
    for (auto& ticket : tickets) ticket->wait();
    for (int32_t i = 0; i < 2000; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i);
  });
}

// Whoever waits moves what there is: its own, and what other threads wait for.
TEST(PointToPoint, RanksMoveWhatTheyWaitFor) {
  run_ranks(2, [](auto segment, int rank) {
    PointToPoint peers(segment, rank, kPatience);
    const int other = 1 - rank;
    constexpr size_t kCount = 3 << 20;  // past the caches
    std::vector<float> mine(kCount), theirs(kCount, -1);
    for (size_t i = 0; i < kCount; ++i) mine[i] = static_cast<float>(i % 1000) + 1000.0F * rank;
    for (int round = 0; round < 3; ++round) {
      auto sent = peers.send(mine.data(), kCount, Dtype::F32, other, "keys");
      auto received = peers.receive(theirs.data(), kCount, Dtype::F32, other, "keys");
      std::thread beside([&] { peers.wait(*sent); });
      peers.wait(*received);
      beside.join();
      EXPECT_TRUE(sent->is_done() && received->is_done());
      for (size_t i = 0; i < kCount; i += 997) {
        ASSERT_EQ(theirs[i], static_cast<float>(i % 1000) + 1000.0F * other) << i;
      }
    }
    // And the thread goes on with what nobody waits for any more.
    auto sent = peers.send(mine.data(), kCount, Dtype::F32, other, "values");
    auto received = peers.receive(theirs.data(), kCount, Dtype::F32, other, "values");
    sent->wait();
    received->wait();
  });
}

TEST(PointToPoint, RefusesAnUnexpectedMessageByName) {
  run_ranks(2, [](auto segment, int rank) {
    PointToPoint peers(segment, rank, kPatience);
    std::vector<float> data(10);
    if (rank == 0) {
      peers.send(data.data(), 4, Dtype::F32, 1, "activations")->wait();
      return;
    }
    auto ticket = peers.receive(data.data(), 10, Dtype::F32, 0, "gradients");
    try {
      ticket->wait();
      ADD_FAILURE();
    } catch (const CommunicationError& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find("expects 10 fp32, but rank 0 sends 4 fp32 as 'activations'"),
                std::string::npos)
          << said;
    }
  });
}

TEST(PointToPoint, WaitsNoLongerThanTheTimeout) {
  run_ranks(2, [](auto segment, int rank) {
    if (rank == 1) return;
    PointToPoint peers(segment, rank, std::chrono::milliseconds(150));
    float value = 0;
    auto ticket = peers.receive(&value, 1, Dtype::F32, 1, "activations");
    peers.wait(*ticket);
    EXPECT_THROW(ticket->wait(), CommunicationError);
    ticket = peers.receive(&value, 1, Dtype::F32, 1, "activations");
    EXPECT_THROW(ticket->wait(), CommunicationError);
  });
}

TEST(Worker, KeepsTheOrderAlsoOfWhatTheCallerDoesItself) {
  Worker worker;
  std::vector<int> order;
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (int i = 0; i < 300; ++i) {
    if (i % 3 == 2) {
      worker.run([&order, i] { order.push_back(i); });
    } else {
      tickets.push_back(worker.start([&order, i] { order.push_back(i); }));
    }
  }
  for (auto& ticket : tickets) ticket->wait();
  for (int i = 0; i < 300; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_THROW(worker.run([] { throw CommunicationError("no"); }), CommunicationError);
  EXPECT_THROW(worker.start([] { throw CommunicationError("no"); })->wait(), CommunicationError);
  worker.run([&order] { order.clear(); });
  EXPECT_TRUE(order.empty());
}

}  // namespace
}  // namespace convoy::shm
