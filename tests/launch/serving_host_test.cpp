#include "tests/launch/agents_testing.h"

// Hosts that serve the rendezvous: where they listen, and those that run no ranks.
namespace convoy::launch {
namespace {

TEST_F(Agents, MeetAtAHostThatOnlyServes) {
  std::filesystem::create_directories(folder_ / "logs");
  std::ofstream(folder_ / "logs/rank-9.err") << "old";
  std::filesystem::last_write_time(
      folder_ / "logs/rank-9.err",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  start("login", "", [this](LaunchOptions& options, HostOptions& host) {
    host.serves_only = true;
    options.log_dir = folder_ / "logs";
    host.serves = true;
    host.rendezvous.max_restarts = 1;
  });
  const std::string script =
      "echo $RANK $WORLD_SIZE $CONVOY_ROUND > $D/place-$CONVOY_ROUND-$RANK; "
      "[ $RANK-$CONVOY_ROUND = 3-1 ] && exit 7; [ $RANK-$CONVOY_ROUND = 0-0 ] && exit 6; sleep 60";
  for (const std::string name : {"a", "b"}) {
    start(name, script, [&](LaunchOptions&, HostOptions& host) {
      host.node_rank = name == "a" ? 0 : 1;
      host.serves = false;
    });
  }
  for (const char* name : {"login", "a", "b"}) EXPECT_EQ(end(name), 7) << said(name);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(content(fmt::format("place-1-{}", rank)), fmt::format("{} 4 1\n", rank));
  }
  expect_said("login", "starting on 2 hosts: ");
  expect_said("login", "rank 0 failed first, so all ranks were stopped");
  expect_said("login", "starting all ranks again (1 of 1 restarts)");
  EXPECT_EQ(parse_json(content("logs/restart-1/failure.json"), "failure.json")["first_rank"], 3);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "logs/rank-9.err")) << "of an earlier job";
  EXPECT_EQ(said("a").find("failed first, so"), std::string::npos) << said("a");
}

TEST_F(Agents, OnlyServeWithNumbersThatMakeSense) {
  start("login", "", [](LaunchOptions& options, HostOptions& host) {
    host.serves_only = true;
    options.max_restarts = -1;
  });
  EXPECT_EQ(end("login"), 2);
  expect_said("login", "restarts and threads are -1 and 0; expected no negative number");
}

TEST_F(Agents, SaveAndEndWithAHostThatOnlyServes) {
  start("login", "", [](LaunchOptions&, HostOptions& host) {
    host.serves_only = true;
    host.serves = true;
  });
  for (const std::string name : {"a", "b"}) {
    start(name, kStays, [](LaunchOptions&, HostOptions& host) { host.serves = false; });
  }
  ASSERT_TRUE(appears("pid-a-0-0") && appears("pid-a-0-1") && appears("pid-b-0-0") &&
              appears("pid-b-0-1"));
  ::kill(agents_.at("login"), SIGTERM);
  for (const char* name : {"login", "a", "b"}) EXPECT_EQ(end(name), 143) << said(name);
  EXPECT_EQ(content("saved-a-0-0"), "saved\n");
  EXPECT_EQ(content("saved-b-0-1"), "saved\n");
}

// Whichever host is lost: none of those that compute is the exception.
TEST_F(Agents, GoOnWithoutTheFirstWhereAnotherServes) {
  min_nodes_ = 1;
  start("login", "", [](LaunchOptions&, HostOptions& host) {
    host.serves_only = true;
    host.serves = true;
  });
  for (const std::string name : {"a", "b"}) {
    start(name, kFirstRoundStays, [&](LaunchOptions&, HostOptions& host) {
      host.node_rank = name == "a" ? 0 : 1;
      host.serves = false;
    });
  }
  ASSERT_TRUE(appears("pid-a-0-0") && appears("pid-b-0-0"));
  ::kill(agents_.at("a"), SIGKILL);
  EXPECT_EQ(end("b"), 0) << said("b");
  EXPECT_EQ(end("login"), 0) << said("login");
  EXPECT_EQ(content("second-b-0"), "0 2 0\n");
}

TEST_F(Agents, OnlyServeAtAnAddressOfTheirOwn) {
  start("login", "", [](LaunchOptions&, HostOptions& host) {
    host.serves_only = true;
    host.endpoint.host = "192.0.2.1";  // nobody's
  });
  EXPECT_EQ(end("login"), 2);
  expect_said("login", "--serve-only cannot serve the rendezvous at 192.0.2.1:");
  expect_said("login", "this host does not have that address");
}

// Who listens without a word, who says something else, and a port that is bound only.
TEST_F(Agents, SayAtOnceThatThePortIsTaken) {
  const auto patient = [](LaunchOptions&, HostOptions& host) {
    host.rendezvous.join_timeout = 600;
  };
  const auto expect_refusal = [&](const std::string& name) {
    start(name, "true", patient);
    EXPECT_EQ(end(name), 2) << said(name);
    expect_said(name, fmt::format("cannot serve the rendezvous at 127.0.0.1:{}: ", port_));
    expect_said(name, "Address already in use");
    expect_said(name, "try another port, the same on all hosts");
  };
  {
    const Descriptor taken = listen_on(Address::resolve("127.0.0.1", port_).at(0));
    ASSERT_GE(taken.get(), 0);
    expect_refusal("silent");
    std::thread listener([&] {
      const Descriptor visitor(::accept4(taken.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const std::string_view banner = "SSH-2.0-OpenSSH_9.2\r\n";
      // The first that is accepted is the visit before.
      const Descriptor second(::accept4(taken.get(), nullptr, nullptr, SOCK_CLOEXEC));
      EXPECT_EQ(::write(second.get(), banner.data(), banner.size()), std::ssize(banner));
      std::this_thread::sleep_for(std::chrono::seconds(2));
    });
    const auto since = std::chrono::steady_clock::now();
    expect_refusal("another");
    EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(4));
    listener.join();
  }
  port_ = unused_port();
  const Address address = Address::resolve("127.0.0.1", port_).at(0);
  const Descriptor bound(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(bound.get(), address.get(), address.size()), 0);
  expect_refusal("bound");
}

// Debian calls a host by its name at an address of its own that no other host reaches.
TEST_F(Agents, ServeAtTheLocalAddressWhereTheNameMeansLoopback) {
  const std::string name = "0x7f.0.1.1";  // a name that stands for 127.0.1.1 wherever this runs
  start("a", "echo $MASTER_ADDR > $D/address-$RANK", [&](LaunchOptions&, HostOptions& host) {
    host.endpoint.host = name;
    host.local_address = "127.0.0.3";
    host.node_rank = 0;
  });
  ASSERT_TRUE(appears("said-a"));
  start("b", "true", [&](LaunchOptions&, HostOptions& host) { host.endpoint.host = "127.0.0.3"; });
  EXPECT_EQ(end("a"), 0) << said("a");
  EXPECT_EQ(end("b"), 0) << said("b");
  expect_said("a", fmt::format("serving the rendezvous of 2 hosts at 127.0.0.3:{}\n", port_));
  EXPECT_EQ(content("address-0"), "127.0.0.3\n");
}

// Without one it says that another may be meant.
TEST_F(Agents, SayHowToServeAtAnotherAddress) {
  min_nodes_ = 1;
  start("a", "true", [](LaunchOptions&, HostOptions& host) { host.endpoint.host = "0x7f.0.1.1"; });
  EXPECT_EQ(end("a"), 0) << said("a");
  expect_said("a", fmt::format(":{}; --local-addr ADDRESS chooses another\n", port_));
}

}  // namespace
}  // namespace convoy::launch
