#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/shm/channel.h"
#include "convoy/shm/cores.h"
#include "convoy/shm/handover.h"
#include "tests/base/small_disk.h"
#include "tests/shm/ranks_testing.h"

// Ranks that are processes. A child must not return into the test: it leaves with an exit code.
namespace convoy::shm {
namespace {

constexpr std::chrono::milliseconds kTimeout{2000};

std::shared_ptr<Segment> join(const std::string& name, int rank, int size) {
  auto segment = take_over(name, rank, size, kTimeout);
  segment->enter(rank);
  return segment;
}

pid_t start(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 99;
  try {
    code = work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  ::_exit(code);
}

int exit_code(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Processes, ReduceWhatLiesInMemoryOfTheirOwn) {
  const int size = 3;
  auto segment = Segment::create(size);
  Handover handover(segment);
  const auto work = [&](const std::shared_ptr<Segment>& memory, int rank) {
    Channel channel(memory, rank, kPatience);
    std::vector<float> data(1000000, static_cast<float>(rank + 1));
    channel.all_reduce(data.data(), data.size(), Dtype::F32, Reduction::Sum, "sum");
    for (float x : data) {
      if (x != 6) return 1;
    }
    return 0;
  };
  std::vector<pid_t> children;
  for (int rank = 1; rank < size; ++rank) {
    children.push_back(start([&] { return work(join(handover.name(), rank, size), rank); }));
  }
  handover.serve(kTimeout);
  segment->enter(0);
  EXPECT_EQ(work(segment, 0), 0);
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
}

TEST(Processes, AFewOfAFullHostDoNotBelieveThatTheyHaveCores) {
  const auto few = Segment::create(1), crowded = Segment::create(1, 100000);
  EXPECT_EQ(crowded->ranks_on_host(), 100000);
  EXPECT_GT(crowded->slot_bytes(), few->slot_bytes());
  const auto taken = Segment::adopt(::dup(crowded->fd()), 1);
  EXPECT_EQ(taken->ranks_on_host(), 100000);
  EXPECT_EQ(taken->slot_bytes(), crowded->slot_bytes());
}

TEST(Processes, KilledOneIsMissedAtOnceWithItsOperation) {
  auto segment = Segment::create(2);
  Handover handover(segment);
  const pid_t child = start([&] {
    auto memory = join(handover.name(), 1, 2);
    Channel channel(memory, 1, kPatience);
    channel.barrier("start");
    tell_step(17);
    tell_operation("forward block 3");
    ::raise(SIGKILL);
    return 0;
  });
  handover.serve(kTimeout);
  segment->enter(0);
  Channel channel(segment, 0, kPatience);
  channel.barrier("start");
  const auto begin = std::chrono::steady_clock::now();
  try {
    std::vector<float> data(100000);
    channel.all_reduce(data.data(), data.size(), Dtype::F32, Reduction::Sum, "reduce bucket 3");
    ADD_FAILURE();
  } catch (const CommunicationError& error) {
    EXPECT_EQ(error.what(),
              fmt::format("[comm] 'reduce bucket 3' did not finish: rank 1 (process {}), in `step "
                          "17, forward block 3` has ended",
                          child));
    EXPECT_EQ(error.missing(), std::vector<int>{1});
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(exit_code(child), 128 + SIGKILL);
}

// In two containers both may be process 7.
TEST(Processes, EndedOneOfTheSameNumberIsMissedToo) {
  auto segment = Segment::create(2);
  Handover handover(segment);
  const pid_t child = start([&] {
    auto memory = join(handover.name(), 1, 2);
    memory->area(1).process = ::getppid();
    Channel(memory, 1, kPatience).barrier("start");
    return 0;
  });
  handover.serve(kTimeout);
  segment->enter(0);
  Channel(segment, 0, kPatience).barrier("start");
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_FALSE(segment->is_alive(1));
  EXPECT_TRUE(segment->is_alive(0));
}

TEST(Processes, MessagesPostedBeforeAnExitStillCount) {
  auto segment = Segment::create(2);
  Handover handover(segment);
  const pid_t child = start([&] {
    auto memory = join(handover.name(), 1, 2);
    Channel channel(memory, 1, kPatience);
    channel.barrier("end");
    return 0;
  });
  handover.serve(kTimeout);
  segment->enter(0);
  Channel channel(segment, 0, kPatience);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  channel.barrier("end");
  EXPECT_EQ(exit_code(child), 0);
}

TEST(Handover, NamesTheRankThatDoesNotComeAndSendsStrangersAway) {
  auto segment = Segment::create(3);
  Handover handover(segment);
  const pid_t child = start([&] {
    EXPECT_THROW(take_over(handover.name(), 77, 3, kTimeout), CommunicationError);
    return take_over(handover.name(), 2, 3, kTimeout)->size() == 3 ? 0 : 1;
  });
  try {
    handover.serve(std::chrono::milliseconds(500));
    ADD_FAILURE();
  } catch (const CommunicationError& error) {
    EXPECT_EQ(error.missing(), std::vector<int>{1}) << error.what();
  }
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_THROW(take_over("convoy-nobody", 1, 3, kTimeout), CommunicationError);
}

/// Signals that interrupt every wait of this process while it lives.
class Alarms {
 public:
  Alarms() {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, nullptr);
    ring_every(5000);
  }
  ~Alarms() { ring_every(0); }

 private:
  static void ring_every(int microseconds) {
    const itimerval time{{0, microseconds}, {0, microseconds}};
    ::setitimer(ITIMER_REAL, &time, nullptr);
  }
};

TEST(Handover, ASignalIsNoTimeout) {
  auto segment = Segment::create(3);
  Handover handover(segment);
  const pid_t early = start([&] {
    const Alarms alarms;
    return take_over(handover.name(), 1, 3, kTimeout)->size() == 3 ? 0 : 1;
  });
  const pid_t late = start([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return take_over(handover.name(), 2, 3, kTimeout)->size() == 3 ? 0 : 1;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  {
    const Alarms alarms;
    EXPECT_NO_THROW(handover.serve(kTimeout));
  }
  EXPECT_EQ(exit_code(early), 0);
  EXPECT_EQ(exit_code(late), 0);
}

TEST(Segment, ServesARankThatIsBoundToOneCore) {
  auto segment = Segment::create(2);
  Handover handover(segment);
  const size_t bytes = segment->slot_bytes();
  const pid_t child = start([&] {
    leave_core(current_core());
    stay_on_core(current_core());
    auto memory = join(handover.name(), 1, 2);
    Channel(memory, 1, kPatience).barrier("start");
    return memory->slot_bytes() == bytes ? 0 : 1;
  });
  handover.serve(kTimeout);
  segment->enter(0);
  Channel(segment, 0, kPatience).barrier("start");
  EXPECT_EQ(exit_code(child), 0);
}

TEST(Segment, RefusedMemoryIsNoLostRank) {
  const auto refused = [](const std::function<void()>& take) -> std::string {
    try {
      take();
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  };
  {
    const SmallDisk disk(1 << 20);
    EXPECT_NE(refused([] {
                (void)Segment::create(2);
              }).find("File too large; try a higher `ulimit -f`, or backend = gloo"),
              std::string::npos);
  }
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const auto said = refused([] { const Handover handover(Segment::of_threads(2)); });
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(said.find("Too many open files; try a higher `ulimit -n`"), std::string::npos) << said;
}

TEST(Segment, RefusesAnotherNumberOfRanks) {
  auto segment = Segment::create(2);
  Handover handover(segment);
  const pid_t child = start([&] {
    EXPECT_THROW(take_over(handover.name(), 1, 3, kTimeout), CommunicationError);
    return 0;
  });
  handover.serve(kTimeout);
  EXPECT_EQ(exit_code(child), 0);
}

TEST(Segment, RefusesAPlaceThatIsTaken) {
  auto segment = Segment::create(2);
  segment->enter(0);
  EXPECT_EQ(exit_code(start([&] {
              try {
                segment->enter(0);
              } catch (const CommunicationError&) {
                return 3;
              }
              return 0;
            })),
            3);
}

}  // namespace
}  // namespace convoy::shm
