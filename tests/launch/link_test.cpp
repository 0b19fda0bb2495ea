#include <fcntl.h>
#include <sched.h>

#include "tests/launch/agents_testing.h"
#include "tests/launch/link_testing.h"

namespace convoy::launch {
namespace {

class OverLink : public Agents {
 protected:
  void SetUp() override {
    if (!link_.why_not().empty()) GTEST_SKIP() << link_.why_not();
  }

  /// Puts an agent on its host.
  Change on(const std::string& host, int min_nodes = 1) const {
    return [min_nodes, file = "/run/netns/" + link_.space(host)](LaunchOptions&,
                                                                 HostOptions& options) {
      const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
      if (::setns(fd, CLONE_NEWNET) != 0) ::_exit(71);
      options.endpoint = {Link::address("a"), 29400};
      options.rendezvous.min_nodes = min_nodes;
    };
  }

  Link link_;
};

TEST_F(OverLink, BothHostsNoticeACutAndTheServingOneGoesOn) {
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

  link_.cut();
  EXPECT_EQ(end("b"), 3);
  expect_said("b", "is gone: ");
  EXPECT_TRUE(disappears(pid_in("pid-b-0-0")) && disappears(pid_in("pid-b-0-1")));
  EXPECT_EQ(end("a"), 0) << said("a");
  expect_said("a", "is lost: silent for 2 s");
  EXPECT_EQ(content("place-a-1"), "10.77.0.1 wire-a 2\n");
}

TEST_F(OverLink, AHostIsNotTakenForLostWhenPacketsComeLateOrNotAtAll) {
  link_.set_delay(std::chrono::milliseconds(100));
  link_.set_loss(0.05);
  const std::string script = "sleep 5; echo $WORLD_SIZE > $D/done-$N-$LOCAL_RANK";
  start("a", script, on("a", 2));
  start("b", script, on("b", 2));
  EXPECT_EQ(end("a", 40), 0) << said("a");
  EXPECT_EQ(end("b"), 0) << said("b");
  EXPECT_EQ(content("done-a-0"), "4\n");
  EXPECT_EQ(content("done-b-1"), "4\n");
  EXPECT_GT(link_.lost(), 0);
}

}  // namespace
}  // namespace convoy::launch
