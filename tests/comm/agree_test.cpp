#include "convoy/comm/agree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <optional>
#include <system_error>

#include "convoy/base/early_error.h"
#include "convoy/base/error.h"
#include "tests/base/few_threads.h"
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

TEST(Agree, AllRanksThrowTheErrorOfOne) {
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
    group.barrier("collectives still work");
  });
  EXPECT_EQ(done, 4);
  EXPECT_EQ(thrown, 4);
}

// A disk may need longer than a collective may wait.
TEST(Agree, LongWorkIsWaitedForBeyondTheTimeout) {
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

/// What a rank knows of an error: whether all throw one that says that all do.
std::string told_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.on_all_ranks() ? "on all ranks" : "an Error";
  } catch (const std::exception&) {
    return "no Error";
  }
  return "nothing";
}

// Who takes an error for one of all ranks ends with the others what they do together.
TEST(Agree, AllRanksOrNoneTakeAnErrorForOneOfAll) {
  run_thread_ranks(3, [](const Group& group) {
    for (const auto lasts : {Lasts::Briefly, Lasts::Long}) {
      const auto of_file = [&] {
        if (group.rank() == 1) fail<FileError>("test", "the disk is full");
      };
      const auto of_memory = [&] {
        if (group.rank() == 1) throw std::bad_alloc();
      };
      const auto other = [&] {
        if (group.rank() == 1) fail<Error>("test", "of no kind");
      };
      const auto each = [&](const std::function<void()>& work) {
        return told_of([&] { each_rank(group, "work", work, lasts); });
      };
      EXPECT_EQ(each(of_file), "on all ranks");
      EXPECT_EQ(each(other), "on all ranks");
      EXPECT_EQ(each(of_memory), group.rank() == 1 ? "no Error" : "an Error");
      const auto look = [&]() -> Json { throw std::bad_alloc(); };
      EXPECT_EQ(told_of([&] { ask_main(group, "look", look, lasts); }),
                group.rank() == 0 ? "no Error" : "an Error");
    }
    group.barrier("the group still works");
  });
}

// Who waits for a rank that has gone says so before its own disk is done.
TEST(Agree, AnErrorIsToldWhileTheDiskIsStillAtWork) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kTimeout{300}, kDisk{1500};
  std::atomic<int> heard{0}, worked{0};
  hear_early_errors([&](const std::exception& error) {
    EXPECT_NE(dynamic_cast<const CommunicationError*>(&error), nullptr);
    EXPECT_EQ(worked, 0) << "only then";
    ++heard;
  });
  run_thread_ranks(
      2,
      [&](const Group& group) {
        if (group.rank() == 1) return;
        const auto began = Clock::now();
        const auto work = [&] {
          std::this_thread::sleep_for(kDisk);
          ++worked;
        };
        EXPECT_THROW(each_rank(group, "work", work, Lasts::Long), CommunicationError);
        EXPECT_GE(Clock::now() - began, kDisk) << "the work may need what is here";
      },
      kTimeout);
  hear_early_errors({});
  EXPECT_EQ(heard, 1);
  EXPECT_EQ(worked, 1);
}

TEST(Agree, AllRanksHearThatAThreadCannotStart) {
  std::optional<FewThreads> none;
  std::atomic<int> worked{0};
  run_thread_ranks(3, [&](const Group& group) {
    group.barrier("all have their threads");
    if (group.rank() == 0) none.emplace(0);
    group.barrier("nobody gets another");
    const auto work = [&] { ++worked; };
    EXPECT_EQ(told_of([&] { each_rank(group, "work", work, Lasts::Long); }),
              group.rank() == 0 ? "no Error" : "an Error");
    group.barrier("all have heard");
    if (group.rank() == 0) none.reset();
    group.barrier("there are threads again");
    each_rank(group, "work", work, Lasts::Long);
  });
  EXPECT_EQ(worked, 3) << "the second time";
}

// Gloo adds up whatever comes of the same size.
TEST(Agree, WaitingForAllNoticesAnotherCollective) {
  std::atomic<int> noticed{0};
  const auto notice = [&](const std::function<void()>& call) {
    try {
      call();
    } catch (const CommunicationError& error) {
      noticed += std::string(error.what()).find("different collectives") != std::string::npos;
    }
  };
  const auto is_over = [](std::chrono::milliseconds) { return true; };
  run_gloo_ranks(2, [&](const Group& group) {
    until_all(group, "the same", is_over);
    notice([&] { until_all(group, group.rank() == 0 ? "wait" : "finish", is_over); });
  });
  EXPECT_EQ(noticed, 2) << "other labels";
  run_gloo_ranks(2, [&](const Group& group) {
    auto numbers = at::zeros({3}, at::kLong);
    notice([&] {
      if (group.rank() == 0) until_all(group, "wait", is_over);
      if (group.rank() == 1) group.all_reduce(numbers, ReduceOp::Max, "count");
    });
  });
  EXPECT_EQ(noticed, 3) << "another collective of as many numbers";
}

}  // namespace
}  // namespace convoy::comm
