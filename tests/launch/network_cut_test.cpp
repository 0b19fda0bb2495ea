#include <fcntl.h>
#include <sched.h>

#include "convoy/launch/process.h"
#include "tests/launch/agents_testing.h"

namespace convoy::launch {
namespace {

/// Two network namespaces, as if they were hosts, with a wire between them.
class Wire : public Agents {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make network namespaces";
    for (const char* host : {"a", "b"}) {
      if (!ip("netns add " + space(host))) GTEST_SKIP() << "`ip netns add` does not work here";
    }
    ASSERT_TRUE(
        ip("-n " + space("a") + " link add wire-a type veth peer name wire-b netns " + space("b")));
    for (const std::string host : {"a", "b"}) {
      const std::string in = "-n " + space(host);
      ASSERT_TRUE(
          ip(in + " addr add 10.77.0." + (host == "a" ? "1" : "2") + "/24 dev wire-" + host));
      ASSERT_TRUE(ip(in + " link set lo up") && ip(in + " link set wire-" + host + " up"));
    }
  }

  void TearDown() override {
    for (const char* host : {"a", "b"}) ip("netns del " + space(host));
  }

  static std::string space(const std::string& host) {
    return fmt::format("convoy-{}-{}", ::getpid(), host);
  }

  static bool ip(const std::string& words) {
    return run_process({"/bin/sh", "-c", "PATH=$PATH:/sbin:/usr/sbin; ip " + words}).ok();
  }

  /// Puts an agent on its host.
  static Change on(const std::string& host) {
    return [file = "/run/netns/" + space(host)](LaunchOptions&, HostOptions& options) {
      const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
      if (::setns(fd, CLONE_NEWNET) != 0) ::_exit(71);
      options.endpoint = {"10.77.0.1", 29400};
      options.rendezvous.min_nodes = 1;
    };
  }
};

TEST_F(Wire, WhenItIsCutBothSidesNoticeAndTheServingOneGoesOn) {
  const std::string script =
      "echo $MASTER_ADDR $GLOO_SOCKET_IFNAME $WORLD_SIZE > $D/place-$N-$CONVOY_ROUND; "
      "echo $$ > $D/pid-$N-$CONVOY_ROUND-$LOCAL_RANK; [ $CONVOY_ROUND = 1 ] || sleep 60";
  start("a", script, [on_a = on("a")](LaunchOptions& options, HostOptions& host) {
    on_a(options, host);
    host.rendezvous.last_call_timeout = 2;
  });
  start("b", script, on("b"));
  ASSERT_TRUE(appears("pid-a-0-1") && appears("pid-b-0-1")) << said("a") << said("b");
  const bool a_is_master = content("place-b-0") == "10.77.0.1 wire-b 4\n";
  EXPECT_TRUE(a_is_master || content("place-a-0") == "10.77.0.2 wire-a 4\n")
      << content("place-a-0") << content("place-b-0");

  // It listens on the wire alone: 10.77.0.1:29400 and nothing else.
  std::ifstream table("/proc/" + std::to_string(agents_.at("a")) + "/net/tcp");
  std::string line;
  int listening = 0;
  while (std::getline(table, line)) {
    if (line.find(" 0A ") == std::string::npos) continue;
    ++listening;
    EXPECT_NE(line.find("01004D0A:72D8"), std::string::npos) << line;
  }
  EXPECT_EQ(listening, 1);

  ASSERT_TRUE(ip("-n " + space("a") + " link set wire-a down"));
  EXPECT_EQ(end("b"), 3);
  expect_said("b", "is gone: ");
  EXPECT_TRUE(disappears(pid_in("pid-b-0-0")) && disappears(pid_in("pid-b-0-1")));
  EXPECT_EQ(end("a"), 0) << said("a");
  expect_said("a", "is lost: silent for 2 s");
  EXPECT_EQ(content("place-a-1"), "10.77.0.1 wire-a 2\n");
}

}  // namespace
}  // namespace convoy::launch
