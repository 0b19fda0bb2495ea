#include "convoy/comm/pending.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

using std::chrono::milliseconds;

struct FakeWork : Work {
  void wait() override {
    ++waits;
    if (!error.empty()) throw CommunicationError(error);
  }
  bool done() const override { return ended; }

  std::atomic<bool> ended = false;
  int waits = 0;
  std::string error;
};

std::shared_ptr<FakeWork> start(const std::string& label, int other, milliseconds timeout) {
  auto work = std::make_shared<FakeWork>();
  add_pending({work, label, {other}, timeout});
  return work;
}

TEST(Pending, FirstUnfinishedCollectiveNamesTheLateRanks) {
  const auto first = start("reduce bucket 0", 1, milliseconds(60000));
  const auto second = start("gather bucket 7", 3, milliseconds(150));
  const auto third = start("reduce loss", 2, milliseconds(150));
  first->ended = true;
  const auto begin = std::chrono::steady_clock::now();
  try {
    finish_pending();
    FAIL() << "it waited for ever";
  } catch (const CommunicationError& error) {
    EXPECT_NE(std::string(error.what()).find("'gather bucket 7' did not finish within 0.15 s"),
              std::string::npos)
        << error.what();
    EXPECT_EQ(error.missing(), (std::vector<int>{3}));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  finish_pending();  // nobody waits for them twice
}

TEST(Pending, AllThreadsThatWaitHearOfIt) {
  const auto work = start("reduce bucket 0", 1, milliseconds(200));
  EXPECT_FALSE(is_stuck());
  std::atomic<int> told = 0;
  const auto wait = [&] {
    try {
      finish_pending();
    } catch (const CommunicationError& error) {
      told += std::string(error.what()).find("'reduce bucket 0'") != std::string::npos ? 1 : 0;
    }
  };
  std::thread one(wait), other(wait);
  one.join();
  other.join();
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(is_stuck());
  work->ended = true;
  EXPECT_FALSE(is_stuck());
}

TEST(Pending, AWaitForSomethingElseEndsWithIt) {
  const auto work = start("reduce bucket 0", 1, milliseconds(60000));
  std::atomic<bool> over = false;
  std::thread gpu([&] {
    std::this_thread::sleep_for(milliseconds(100));
    over = true;
  });
  EXPECT_NO_THROW(finish_pending_or([&] { return over.load(); }));
  EXPECT_TRUE(over);
  gpu.join();
  work->ended = true;
  finish_pending();
}

TEST(Pending, EachFinishedCollectiveRestartsTheTimeout) {
  std::vector<std::shared_ptr<FakeWork>> works;
  for (int i = 0; i < 4; ++i) works.push_back(start("step", 1, milliseconds(400)));
  std::thread gpu([&] {
    for (auto& work : works) {
      std::this_thread::sleep_for(milliseconds(200));
      work->ended = true;
    }
  });
  EXPECT_NO_THROW(finish_pending());  // 800 ms together
  gpu.join();
  for (const auto& work : works) EXPECT_EQ(work->waits, 1);
}

TEST(Pending, NextWaitThrowsAFailureOnce) {
  const auto work = start("reduce bucket 0", 1, milliseconds(1000));
  work->error = "[comm] 'reduce bucket 0' did not finish: a peer is gone";
  work->ended = true;
  std::shared_ptr<FakeWork> next;
  EXPECT_NO_THROW(next = start("gather bucket 1", 1, milliseconds(1000))) << "another one's";
  EXPECT_THROW(finish_pending(), CommunicationError);
  next->ended = true;
  EXPECT_NO_THROW(finish_pending());
}

}  // namespace
}  // namespace convoy::comm
