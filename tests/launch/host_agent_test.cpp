#include "convoy/launch/hosts/host_agent.h"

#include "convoy/base/json.h"
#include "tests/launch/agents_testing.h"

namespace convoy::launch {
namespace {

TEST_F(Agents, FormOneJob) {
  const std::string script =
      "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE "
      "$MASTER_ADDR $GLOO_SOCKET_IFNAME $TORCHELASTIC_RUN_ID token=$CONVOY_TOKEN > $D/place-$RANK; "
      "echo $MASTER_PORT > $D/port-$RANK";
  start("b", script, [](LaunchOptions& options, HostOptions& host) {
    options.num_ranks = 1;
    host.node_rank = 0;
  });
  start("a", script, [](LaunchOptions&, HostOptions& host) {
    host.node_rank = 1;
    host.local_address = "127.0.0.2";
  });
  EXPECT_EQ(end("a"), 0) << said("a");
  EXPECT_EQ(end("b"), 0) << said("b");
  EXPECT_EQ(content("place-0"), "0 3 0 1 0 2 127.0.0.1 lo none token=\n");
  EXPECT_EQ(content("place-1"), "1 3 0 2 1 2 127.0.0.1 lo none token=\n");
  EXPECT_EQ(content("place-2"), "2 3 1 2 1 2 127.0.0.1 lo none token=\n");
  EXPECT_EQ(content("port-0"), content("port-2"));
  EXPECT_NE(content("port-0"), fmt::format("{}\n", port_));
  const std::string both = said("a") + said("b");
  EXPECT_NE(both.find("(127.0.0.2) ranks 1-2"), std::string::npos) << both;
  EXPECT_EQ(both.find("127.0.0.1) rank 0"), both.rfind("127.0.0.1) rank 0")) << "one table";
}

TEST_F(Agents, LogsOfEarlierJobsGo) {
  const auto logs = [this](const std::string& name) { return folder_ / ("logs-" + name); };
  for (const std::string name : {"a", "b"}) {
    for (const char* file : {"failure.json", "rank-9.err", "rank-9.out", "restart-1/rank-0.out",
                             "restart-1/failure.json", "restart-2/mine.txt", "rank-x.out"}) {
      std::filesystem::create_directories((logs(name) / file).parent_path());
      std::ofstream(logs(name) / file) << "old";
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a file's clock is coarse
  for (const std::string name : {"a", "b"}) {
    start(name, "echo $RANK", [&, name](LaunchOptions& options, HostOptions& host) {
      options.log_dir = logs(name);
      host.node_rank = name == "a" ? 0 : 1;
    });
  }
  EXPECT_EQ(end("a"), 0) << said("a");
  EXPECT_EQ(end("b"), 0) << said("b");
  for (const std::string name : {"a", "b"}) {
    EXPECT_FALSE(std::filesystem::exists(logs(name) / "failure.json")) << name;
    EXPECT_FALSE(std::filesystem::exists(logs(name) / "rank-9.err")) << name;
    EXPECT_FALSE(std::filesystem::exists(logs(name) / "rank-9.out")) << name;
    EXPECT_FALSE(std::filesystem::exists(logs(name) / "restart-1")) << name;
    EXPECT_TRUE(std::filesystem::exists(logs(name) / "restart-2/mine.txt")) << name;
    EXPECT_TRUE(std::filesystem::exists(logs(name) / "rank-x.out")) << name;
  }
  EXPECT_TRUE(std::filesystem::exists(logs("a") / "rank-0.out"));
  EXPECT_TRUE(std::filesystem::exists(logs("b") / "rank-2.out"));
}

TEST_F(Agents, ReportTheFirstFailureOfTheWholeJobOnce) {
  const auto logs = [this](LaunchOptions& options, HostOptions& host) {
    options.log_dir = folder_ / fmt::format("logs-{}", host.node_rank);
  };
  const std::string script = "if [ $RANK = 3 ]; then echo ouch >&2; exit 7; fi; sleep 60";
  start("a", script, [&](LaunchOptions& options, HostOptions& host) {
    host.node_rank = 0;
    host.serves = true;
    logs(options, host);
  });
  start("b", script, [&](LaunchOptions& options, HostOptions& host) {
    host.node_rank = 1;
    host.serves = false;
    logs(options, host);
  });
  EXPECT_EQ(end("a"), 7);
  EXPECT_EQ(end("b"), 7);
  expect_said("a", "rank 3 failed first, so all ranks were stopped\n  where   rank 3 of 4, host ");
  expect_said("a", "| ouch");
  expect_said("a", "ranks 0-2 had to be stopped");
  EXPECT_EQ(said("b").find("had to be stopped"), std::string::npos) << "one report: " << said("b");
  expect_said("b", "rank 3 on ");
  const Json report = parse_json(content("logs-0/failure.json"), "failure.json");
  EXPECT_EQ(report["first_rank"], 3);
  EXPECT_EQ(report["ranks"].size(), 4u);
  EXPECT_EQ(report["ranks"][3]["log_tail"][0], "ouch");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "logs-1/failure.json"));
}

TEST_F(Agents, ShowWhatARankOfAnotherHostSaysAsText) {
  const std::string script =
      "if [ $RANK = 3 ]; then printf '{\"rank\": 3, \"kind\": \"Error\", \"error\": "
      "\"clears \\u001b[2J all\"}' > $TORCHELASTIC_ERROR_FILE; exit 3; fi; sleep 60";
  for (const std::string name : {"a", "b"}) {
    start(name, script, [&](LaunchOptions&, HostOptions& host) {
      host.node_rank = name == "a" ? 0 : 1;
      host.serves = name == "a";
    });
  }
  EXPECT_EQ(end("a"), 3);
  EXPECT_EQ(end("b"), 3);
  for (const std::string name : {"a", "b"}) {
    expect_said(name, "clears \\x1b[2J all");
    EXPECT_EQ(said(name).find('\x1b'), std::string::npos) << said(name);
  }
}

TEST_F(Agents, StartAgainTogetherAfterAFailure) {
  const auto once = [](LaunchOptions& options, HostOptions& host) {
    options.max_restarts = host.rendezvous.max_restarts = 1;
  };
  const std::string script =
      "echo $TORCHELASTIC_RESTART_COUNT $CONVOY_ROUND > $D/try-$RANK; "
      "if [ $CONVOY_ROUND = 0 ]; then [ $RANK = 1 ] && exit 6; sleep 60; fi";
  start("a", script, once);
  start("b", script, once);
  EXPECT_EQ(end("a"), 0) << said("a");
  EXPECT_EQ(end("b"), 0) << said("b");
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(content(fmt::format("try-{}", rank)), "1 1\n");
  const std::string both = said("a") + said("b");
  EXPECT_NE(both.find("starting all ranks again (1 of 1 restarts)"), std::string::npos) << both;
}

TEST_F(Agents, AMissingProgramEndsAllAtOnce) {
  min_nodes_ = 1;
  start("a", "sleep 60", [](LaunchOptions&, HostOptions& host) { host.serves = true; });
  start("b", "", [](LaunchOptions& options, HostOptions& host) {
    host.rendezvous.last_call_timeout = 5;
    host.serves = false;
    options.command = {"no-such-program-here"};
    options.max_restarts = 3;
  });
  EXPECT_EQ(end("b"), 2);
  EXPECT_EQ(end("a"), 2);
  expect_said("a", "'no-such-program-here': no such program in PATH");
}

TEST_F(Agents, GoOnWithoutOneThatIsKilled) {
  min_nodes_ = 1;
  start("a", kFirstRoundStays, [](LaunchOptions&, HostOptions& host) {
    host.serves = true;
    host.rendezvous.last_call_timeout = 1;
  });
  start("b", kFirstRoundStays, [](LaunchOptions&, HostOptions& host) { host.serves = false; });
  ASSERT_TRUE(appears("pid-a-0-0") && appears("pid-b-0-0") && appears("pid-b-0-1"));
  ::kill(agents_.at("b"), SIGKILL);
  EXPECT_EQ(end("b"), 137);
  EXPECT_TRUE(disappears(pid_in("pid-b-0-0")));
  EXPECT_EQ(end("a"), 0) << said("a");
  EXPECT_EQ(content("second-a-0"), "0 2 0\n") << "smaller, and no restart is counted";
  expect_said("a", "is lost: it closed the connection");
  expect_said("a", "forming the job anew with 1 of 1 to 2 hosts");
}

TEST_F(Agents, TakeInOneThatComesLaterAfterSaving) {
  min_nodes_ = 1;
  start("a", kFirstRoundStays, [](LaunchOptions&, HostOptions& host) { host.serves = true; });
  ASSERT_TRUE(appears("pid-a-0-0") && appears("pid-a-0-1"));
  start("b", kFirstRoundStays, [](LaunchOptions&, HostOptions& host) { host.serves = false; });
  EXPECT_EQ(end("a"), 0) << said("a");
  EXPECT_EQ(end("b"), 0) << said("b");
  EXPECT_EQ(content("saved-a-0-0"), "saved\n");
  EXPECT_EQ(content("second-a-1"), "1 4 0\n");
  EXPECT_EQ(content("second-b-0"), "2 4 0\n");
}

TEST_F(Agents, StopTheirRanksWhenTheServingHostDies) {
  start("a", kStays, [](LaunchOptions&, HostOptions& host) { host.serves = true; });
  start("b", kStays, [](LaunchOptions&, HostOptions& host) { host.serves = false; });
  ASSERT_TRUE(appears("pid-a-0-1") && appears("pid-b-0-0") && appears("pid-b-0-1"));
  ::kill(agents_.at("a"), SIGKILL);
  EXPECT_EQ(end("b", 5), 3);
  expect_said("b", "the host of the rendezvous at 127.0.0.1:");
  expect_said("b", "is gone: it closed the connection; the ranks of this host were stopped");
  for (const char* name : {"pid-a-0-0", "pid-a-0-1", "pid-b-0-0", "pid-b-0-1"}) {
    EXPECT_TRUE(disappears(pid_in(name))) << name;
  }
}

// An agent that hangs is like a host whose network is cut: nothing closes its connection.
TEST_F(Agents, NoticeSilenceOnBothSides) {
  min_nodes_ = 1;
  start("a", kFirstRoundStays, [](LaunchOptions&, HostOptions& host) {
    host.serves = true;
    host.rendezvous.last_call_timeout = 1;
  });
  start("b", kFirstRoundStays, [](LaunchOptions&, HostOptions& host) { host.serves = false; });
  ASSERT_TRUE(appears("pid-a-0-0") && appears("pid-b-0-0"));
  ::kill(agents_.at("b"), SIGSTOP);
  EXPECT_EQ(end("a"), 0) << said("a");
  expect_said("a", "is lost: silent for 2 s");
  ::kill(agents_.at("b"), SIGCONT);
  EXPECT_EQ(end("b"), 3);
  EXPECT_TRUE(disappears(pid_in("pid-b-0-0")));
}

TEST_F(Agents, LeaveTogetherWhenOneIsInterrupted) {
  start("a", kStays, [](LaunchOptions&, HostOptions& host) { host.serves = true; });
  start("b", kStays, [](LaunchOptions&, HostOptions& host) { host.serves = false; });
  ASSERT_TRUE(appears("pid-a-0-0") && appears("pid-a-0-1") && appears("pid-b-0-0") &&
              appears("pid-b-0-1"));
  ::kill(agents_.at("b"), SIGTERM);
  EXPECT_EQ(end("a"), 143) << said("a");
  EXPECT_EQ(end("b"), 143) << said("b");
  for (const char* name : {"saved-a-0-0", "saved-a-0-1", "saved-b-0-0", "saved-b-0-1"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_ / name)) << name;
  }
  start("c", kStays);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(agents_.at("c"), SIGINT);
  EXPECT_EQ(end("c"), 130) << "one that waits for the others: " << said("c");
}

TEST_F(Agents, NeedASecretAndAnEndpointThatExists) {
  token_ = "";
  start("a", "true");
  EXPECT_EQ(end("a"), 2);
  expect_said("a", "CONVOY_TOKEN is not set");
  token_ = "a secret of the test";
  {
    const Descriptor taken = listen_on(Address::resolve("127.0.0.1", port_).at(0));
    start("b", "true", [](LaunchOptions&, HostOptions& host) { host.serves = true; });
    EXPECT_EQ(end("b"), 2);
    expect_said("b", "cannot serve the rendezvous at 127.0.0.1:");
    expect_said("b", "Address already in use");
  }
  start("c", "true", [](LaunchOptions&, HostOptions& host) {
    host.serves = false;
    host.rendezvous.join_timeout = 0.5;
  });
  EXPECT_EQ(end("c"), 3);
  expect_said("c", "within 0.50 s: Connection refused");
}

// The serving host keeps the command of whoever comes first.
TEST_F(Agents, KeepNoSecretOfTheCommand) {
  const auto with_token = [this](const std::string& name) {
    start(name, "exit 5", [&](LaunchOptions& options, HostOptions& host) {
      options.command.insert(options.command.end(), {"--token", "hf_" + std::string(34, 'x')});
      if (name == "a") options.log_dir = folder_ / "logs";
      host.serves = name == "a";
    });
  };
  with_token("b");
  with_token("a");
  EXPECT_EQ(end("a"), 5);
  EXPECT_EQ(end("b"), 5);
  const auto report = content("logs/failure.json");
  EXPECT_NE(report.find("--token ***"), std::string::npos) << report;
  EXPECT_EQ(report.find("hf_x"), std::string::npos) << report;
}

}  // namespace
}  // namespace convoy::launch
