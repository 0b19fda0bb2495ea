#include "convoy/launch/supervise/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "convoy/base/files.h"
#include "convoy/launch/stop_signal.h"

namespace convoy::launch {
namespace {

namespace fs = std::filesystem;

bool goes(const fs::path& folder) {
  for (int i = 0; i < 300 && fs::exists(folder); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return !fs::exists(folder);
}

TEST(TemporaryFolder, GoesWithItsOwnerWhateverEndsThat) {
  for (const int signal : {0, SIGINT, SIGTERM, SIGKILL}) {
    SCOPED_TRACE(signal);
    const auto folder = unique_folder("temporary-folder-test");
    const pid_t child = ::fork();
    if (child == 0) {
      leave_on_stop_signals();
      {
        const TemporaryFolder owner(folder);
        fs::create_directories(folder / "inner");
        std::ofstream(folder / "inner/file") << "text";
        std::ofstream(folder.string() + ".ready") << "";
        if (signal != 0) std::this_thread::sleep_for(std::chrono::seconds(60));
      }
      ::_exit(0);
    }
    while (!fs::exists(folder.string() + ".ready")) std::this_thread::yield();
    if (signal != 0) ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(goes(folder));
    if (signal == SIGINT || signal == SIGTERM) {
      EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    }
    fs::remove_all(folder);
    fs::remove(folder.string() + ".ready");
  }
}

}  // namespace
}  // namespace convoy::launch
