#include <set>

#include "convoy/launch/supervise/agent.h"
#include "tests/base/unused_port.h"
#include "tests/launch/agents_testing.h"

namespace convoy::launch {
namespace {

namespace fs = std::filesystem;

/// What launchers that were started in `folder` have left: processes there, and private folders.
std::set<std::string> traces(const fs::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::error_code not_ours;
    if (fs::read_symlink(entry.path() / "cwd", not_ours) == folder) out.insert(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(folder / "tmp")) out.insert(entry.path());
  return out;
}

int open_descriptors() {
  return static_cast<int>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
}

/// Twenty ends of five kinds; CONVOY_CYCLES makes it more.
TEST(Cycles, LeaveNoProcessPortOrFolder) {
  const char* more = std::getenv("CONVOY_CYCLES");
  const int cycles = more == nullptr ? 20 : std::stoi(more);
  const auto folder = unique_folder("cycles-test");
  fs::create_directory(folder / "tmp");
  const int descriptors = open_descriptors();
  const int port = unused_port();
  for (int cycle = 0; cycle < cycles; ++cycle) {
    const int kind = cycle % 5;
    const fs::path ready = folder / std::to_string(cycle);
    const pid_t launcher = ::fork();
    if (launcher == 0) {
      fs::current_path(folder);
      ::setenv("TMPDIR", (folder / "tmp").c_str(), 1);
      ::setenv("CONVOY_TOKEN", "a secret of the test", 1);
      const char* script = kind == 0   ? "sleep 60 & exit 0"
                           : kind == 1 ? "[ $RANK = 1 ] && exit 3; sleep 60 & sleep 60"
                           : kind == 2 ? "[ $RANK = 1 ] && kill -9 $$; trap '' TERM; sleep 0.2"
                                       : "sleep 60 & echo $$ > $READY; sleep 60";
      ::setenv("READY", ready.c_str(), 1);
      LaunchOptions options;
      options.num_ranks = 2;
      options.grace_seconds = 0.1;
      options.command = {"/bin/sh", "-c", script};
      HostOptions host;  // the others to come are never there, so one is enough
      host.endpoint = {"127.0.0.1", port};
      host.rendezvous.max_nodes = 2;
      host.rendezvous.last_call_timeout = 0.01;
      ::_exit(cycle % 2 == 0 ? run_ranks(options) : run_ranks_of_host(options, host));
    }
    if (kind >= 3) {
      for (int i = 0; i < 500 && !fs::exists(ready); ++i) ::usleep(10000);
      EXPECT_TRUE(fs::exists(ready)) << "cycle " << cycle;
      ::kill(launcher, kind == 3 ? SIGTERM : SIGKILL);
    }
    int status = 0;
    ::waitpid(launcher, &status, 0);
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const int expected[] = {0, 3, 137, 143, 137};
    EXPECT_EQ(code, expected[kind]) << "cycle " << cycle;
  }
  // The last instants of who was killed.
  for (int i = 0; i < 300 && !traces(folder).empty(); ++i) ::usleep(10000);
  EXPECT_EQ(traces(folder), std::set<std::string>());
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_GE(listen_on(Address::resolve("127.0.0.1", port).at(0)).get(), 0) << "the port is taken";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace convoy::launch
