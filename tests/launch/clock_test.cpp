#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "tests/launch/agents_testing.h"

namespace {
std::atomic<time_t> seconds_ahead{0};
}

/// The system's clock as this program sees it, so that a test can set it.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += seconds_ahead;
  return result;
}

namespace convoy::launch {
namespace {

TEST_F(Agents, WaitAsLongAsTheyShouldWhenSomebodySetsTheClock) {
  for (const bool the_host_waits : {true, false}) {
    start("early", "true", [&](LaunchOptions&, HostOptions& host) {
      host.serves = the_host_waits;
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        seconds_ahead = 3600;
      }).detach();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    start("late", "true",
          [&](LaunchOptions&, HostOptions& host) { host.serves = !the_host_waits; });
    EXPECT_EQ(end("early"), 0) << said("early");
    EXPECT_EQ(end("late"), 0) << said("late");
  }
}

}  // namespace
}  // namespace convoy::launch
