#include "convoy/comm/agree.h"

#include <gtest/gtest.h>

#include <atomic>

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

TEST(Agree, AllHearWhatTheFirstRankSaw) {
  run_thread_ranks(3, [](Group group) {
    const auto told = ask_main(group, "look", [&] { return Json(group.rank()); });
    EXPECT_EQ(told, 0);
    EXPECT_THROW(
        ask_main(group, "look", []() -> Json { fail<UsageError>("test", "nothing there"); }),
        UsageError);
  });
}

TEST(Agree, WhatOneRankThrowsAllThrow) {
  std::atomic<int> thrown{0}, done{0};
  run_thread_ranks(4, [&](Group group) {
    each_rank(group, "work", [&] { ++done; });
    try {
      each_rank(group, "work", [&] {
        if (group.rank() >= 2) fail<FileError>("test", "the disk of rank {} is full", group.rank());
      });
    } catch (const FileError& error) {
      EXPECT_STREQ(error.what(), "[test] the disk of rank 2 is full");
      ++thrown;
    }
    group.barrier("they still talk to each other");
  });
  EXPECT_EQ(done, 4);
  EXPECT_EQ(thrown, 4);
}

// A disk may need longer than a collective may wait.
TEST(Agree, WhatLastsLongerThanTheTimeoutIsWaitedFor) {
  constexpr std::chrono::milliseconds kTimeout{500}, kLong{1500};
  std::atomic<int> told{0};
  run_thread_ranks(
      3,
      [&](const Group& group) {
        const auto look = [&] {
          std::this_thread::sleep_for(kLong);
          return Json("found");
        };
        EXPECT_EQ(ask_main(group, "look", look, Lasts::Long), "found");
        const auto work = [&] {
          if (group.rank() != 1) return;
          std::this_thread::sleep_for(kLong);
          fail<FileError>("test", "the disk is full");
        };
        try {
          each_rank(group, "work", work, Lasts::Long);
        } catch (const FileError&) {
          ++told;
        }
        std::atomic<bool> over{group.rank() > 0};
        std::jthread later([&] {
          std::this_thread::sleep_for(kLong);
          over = true;
        });
        until_all(group, "wait", [&](std::chrono::milliseconds patience) {
          if (!over) std::this_thread::sleep_for(patience);
          return over.load();
        });
        EXPECT_TRUE(over);
      },
      kTimeout);
  EXPECT_EQ(told, 3);
}

}  // namespace
}  // namespace convoy::comm
