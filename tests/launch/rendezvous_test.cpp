#include "convoy/launch/hosts/rendezvous.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "convoy/base/text.h"

namespace convoy::launch {
namespace {

/// A rendezvous without sockets and clock: members are numbers, time is what the test says.
class Rules : public ::testing::Test {
 protected:
  void begin(int min_nodes, int max_nodes, int max_restarts = 0) {
    RendezvousOptions options;
    options.min_nodes = min_nodes;
    options.max_nodes = max_nodes;
    options.max_restarts = max_restarts;
    rules_ = std::make_unique<Rendezvous>(
        options, [this](int id, const Json& message) { sent_[id].push_back(message); },
        [this](const std::string& text) { said_ += text + "\n"; });
  }

  void ready(int id, int node_rank = -1, int num_ranks = 2) {
    rules_->receive(id,
                    {{"type", "ready"},
                     {"host", fmt::format("h{}", id)},
                     {"serves", id == 0},
                     {"serves_only", num_ranks == 0},
                     {"node_rank", node_rank},
                     {"num_ranks", num_ranks},
                     {"port", 1000 + id},
                     {"command", "train"}},
                    now_);
  }

  void come(int id, int node_rank = -1, int num_ranks = 2) {
    rules_->join(id, fmt::format("10.0.0.{}", id), now_);
    ready(id, node_rank, num_ranks);
  }

  void wait(double seconds) {
    now_ += seconds;
    rules_->tick(now_);
  }

  static RankReport rank(int number, RankEnd end, double time, const std::string& kind = "") {
    RankReport out{.rank = number, .host = "h", .end = end, .end_time = time};
    out.exit_code = end == RankEnd::kSucceeded ? 0 : 9;
    out.early = end == RankEnd::kFailed;
    if (!kind.empty()) {
      out.error = RankError{.rank = number, .time = time, .kind = kind, .error = "it broke"};
    }
    return out;
  }

  void end(int id, const std::vector<RankReport>& ranks, double clock_ahead = 0) {
    bool succeeded = true;
    Json list = Json::array();
    for (const auto& one : ranks) {
      list.push_back(to_json(one));
      succeeded &= one.end == RankEnd::kSucceeded;
    }
    rules_->receive(id,
                    {{"type", "ended"},
                     {"succeeded", succeeded},
                     {"time", now_ + clock_ahead},
                     {"ranks", list}},
                    now_);
  }

  /// The last message to a member, or an empty object.
  Json last(int id) const {
    const auto found = sent_.find(id);
    return found == sent_.end() ? Json::object() : found->second.back();
  }
  std::string type(int id) const { return last(id).value("type", ""); }

  std::unique_ptr<Rendezvous> rules_;
  std::map<int, std::vector<Json>> sent_;
  std::string said_;
  double now_ = 1000;
};

TEST_F(Rules, StartsWhenAllAreThereInTheOrderOfNodeRanks) {
  begin(3, 3);
  wait(0);  // a clock that runs before the first has come
  come(0, 2, 1);
  come(1, -1, 2);
  wait(100);
  EXPECT_EQ(type(0), "");
  come(2, 0, 3);
  wait(0);
  EXPECT_EQ(last(2)["node_rank"], 0);
  EXPECT_EQ(last(0)["node_rank"], 1) << "numbers without a gap";
  EXPECT_EQ(last(1)["node_rank"], 2);
  EXPECT_EQ(last(2)["first_rank"], 0);
  EXPECT_EQ(last(0)["first_rank"], 3);
  EXPECT_EQ(last(1)["first_rank"], 4);
  for (int id = 0; id < 3; ++id) {
    EXPECT_EQ(last(id)["world_size"], 6);
    EXPECT_EQ(last(id)["master_addr"], "10.0.0.2");
    EXPECT_EQ(last(id)["master_port"], 1002);
  }
  for (int id = 0; id < 3; ++id) end(id, {rank(id, RankEnd::kSucceeded, now_)});
  for (int id = 0; id < 3; ++id) EXPECT_EQ(last(id)["code"], 0);
  EXPECT_TRUE(rules_->over());
}

TEST_F(Rules, EnoughHostsWaitForALastCallOnly) {
  begin(2, 4);
  come(0);
  wait(100);
  come(1);
  wait(4);
  EXPECT_EQ(type(0), "");
  come(2);
  wait(4);
  EXPECT_EQ(type(0), "") << "each that comes begins it anew";
  wait(1.5);
  EXPECT_EQ(last(0)["num_nodes"], 3);
}

TEST_F(Rules, SaysWhoCameWhenTooFewDo) {
  begin(3, 3);
  come(0);
  come(1);
  wait(599);
  EXPECT_EQ(type(0), "");
  wait(2);
  EXPECT_EQ(last(0)["code"], 3);
  EXPECT_EQ(last(0)["text"], last(1)["text"]);
  const std::string text = last(0)["text"];
  EXPECT_NE(text.find("only 2 of 3 hosts came within 10 min 00 s: host h0 (10.0.0.0), host h1"),
            std::string::npos)
      << text;
}

TEST_F(Rules, ReportsTheFirstFailureOfAllHostsByTheirOwnClocks) {
  begin(2, 2, 1);
  come(0);
  come(1);
  wait(0);
  rules_->receive(0, {{"type", "failing"}, {"cause", false}}, now_);
  wait(0.5);
  EXPECT_EQ(type(1), "start") << "who only lost its peers may not be the first";
  rules_->receive(1, {{"type", "failing"}, {"cause", true}}, now_);
  wait(0);
  EXPECT_EQ(type(1), "stop");
  EXPECT_EQ(last(1)["save"], false);
  wait(0.5);
  end(0, {rank(0, RankEnd::kFailed, now_ - 1, "NumericError"), rank(1, RankEnd::kStopped, now_)});
  EXPECT_EQ(type(0), "stop");
  // By its clock, an hour ahead, rank 2 failed much later, in truth two seconds before rank 0.
  end(1,
      {rank(2, RankEnd::kFailed, now_ + 3600 - 3, "FileError"), rank(3, RankEnd::kStopped, now_)},
      3600);
  EXPECT_EQ(type(0), "again");
  EXPECT_EQ(last(0)["report"]["first_rank"], 2);
  EXPECT_EQ(last(0)["report"]["ranks"].size(), 4u);
  EXPECT_FALSE(last(1).contains("report")) << "one report, on the host of the rendezvous";

  ready(0);
  wait(10);
  EXPECT_EQ(type(0), "again") << "the other is still to come";
  ready(1);
  wait(0);
  EXPECT_EQ(last(1)["restarts"], 1);
  EXPECT_EQ(last(1)["round"], 1);
  end(1, {rank(2, RankEnd::kFailed, now_)});
  end(0, {rank(0, RankEnd::kStopped, now_)});
  for (int id : {0, 1}) {
    EXPECT_EQ(type(id), "finish");
    EXPECT_EQ(last(id)["code"], 9);
  }
  const std::string text = last(1)["text"];
  EXPECT_NE(text.find("rank 2 on h failed first: ended with exit code 9"), std::string::npos);
}

TEST_F(Rules, ALostHostFormsTheJobAnewWithoutARestart) {
  begin(1, 3);
  for (int id : {0, 1, 2}) come(id);
  wait(0);
  // Its ranks' peers notice first.
  rules_->receive(0, {{"type", "failing"}, {"cause", false}}, now_);
  wait(2);
  end(0, {rank(0, RankEnd::kFailed, now_, "CommunicationError")});
  end(2, {rank(4, RankEnd::kStopped, now_)});
  EXPECT_EQ(type(0), "stop") << "host 1 is to answer";
  rules_->lose(1, "silent for 10 s", now_);
  EXPECT_EQ(type(0), "again");
  ready(0);
  ready(2);
  wait(1);
  EXPECT_EQ(type(0), "again") << "a last call for another";
  wait(5);
  EXPECT_EQ(last(0)["num_nodes"], 2);
  EXPECT_EQ(last(0)["world_size"], 4);
  EXPECT_EQ(last(2)["node_rank"], 1);
  EXPECT_EQ(last(0)["restarts"], 0);
  EXPECT_EQ(last(0)["round"], 1);
  EXPECT_NE(said_.find("host h1 (10.0.0.1) is lost: silent for 10 s"), std::string::npos) << said_;
}

TEST_F(Rules, TooFewHostsAwaitAReplacementOnlyShortly) {
  for (const bool one_comes : {true, false}) {
    sent_.clear();
    begin(2, 2);
    for (int id : {0, 1}) come(id);
    wait(0);
    EXPECT_EQ(type(0), "start");
    rules_->lose(1, "silent for 10 s", now_);
    end(0, {rank(0, RankEnd::kStopped, now_)});
    EXPECT_EQ(type(0), "again");
    ready(0);
    wait(4);
    EXPECT_EQ(type(0), "again");
    if (one_comes) {
      come(2);
      wait(0);
      EXPECT_EQ(last(2)["num_nodes"], 2);
      continue;
    }
    wait(2);
    EXPECT_EQ(last(0)["code"], 3);
    const std::string text = last(0)["text"];
    EXPECT_NE(
        text.find("only 1 of 2 hosts left after host h1 (10.0.0.1) was lost (silent for 10 s)"),
        std::string::npos)
        << text;
  }
}

TEST_F(Rules, ANewHostIsTakenInWhileThereIsRoom) {
  begin(1, 2);
  come(0);
  wait(6);
  EXPECT_EQ(type(0), "start");
  come(1);
  EXPECT_EQ(type(0), "stop");
  EXPECT_EQ(last(0)["save"], true);
  end(0, {rank(0, RankEnd::kStopped, now_)});
  ready(0);
  wait(0);
  EXPECT_EQ(last(1)["num_nodes"], 2);
  EXPECT_EQ(last(1)["restarts"], 0);
  come(2);
  EXPECT_EQ(type(2), "wait");
  EXPECT_EQ(type(0), "start");
  rules_->lose(1, "gone", now_);
  end(0, {rank(0, RankEnd::kStopped, now_)});
  ready(0);
  wait(0);
  EXPECT_EQ(last(2)["num_nodes"], 2) << "who waits takes the free place";
}

TEST_F(Rules, StoppedHostLeavesAndEnoughOthersGoOn) {
  begin(1, 2);
  come(0);
  come(1);
  wait(0);
  rules_->receive(1, {{"type", "leave"}, {"signal", 15}}, now_);
  EXPECT_EQ(type(0), "stop");
  EXPECT_EQ(last(0)["save"], true);
  EXPECT_EQ(type(1), "start") << "it stops its ranks itself";
  end(0, {rank(0, RankEnd::kStopped, now_)});
  end(1, {rank(2, RankEnd::kStopped, now_)});
  EXPECT_EQ(last(1)["code"], 143);
  EXPECT_EQ(type(0), "again");

  begin(2, 2);
  sent_.clear();
  come(0);
  come(1);
  wait(0);
  rules_->receive(1, {{"type", "leave"}, {"signal", 2}}, now_);
  end(0, {rank(0, RankEnd::kStopped, now_)});
  end(1, {rank(2, RankEnd::kStopped, now_)});
  for (int id : {0, 1}) EXPECT_EQ(last(id)["code"], 130);
}

TEST_F(Rules, RefusesAHostThatWaitsForAnotherNumberOfHosts) {
  begin(2, 2);
  come(0);
  rules_->join(1, "10.0.0.1", now_);
  rules_->receive(
      1, {{"type", "ready"}, {"host", "h1"}, {"max_nodes", 3}, {"num_ranks", 2}, {"port", 1001}},
      now_);
  EXPECT_EQ(type(1), "refuse");
  EXPECT_EQ(last(1)["why"],
            "it waits for 3 hosts at most, the rendezvous for 2; expected the same --nnodes on all "
            "hosts");
  EXPECT_NE(said_.find("host h1 (10.0.0.1) is refused"), std::string::npos) << said_;
  come(2);
  wait(0);
  EXPECT_EQ(type(0), "start");
}

TEST_F(Rules, AHostThatOnlyServesIsNoneOfTheJobs) {
  begin(1, 2, 1);
  come(0, -1, /*num_ranks=*/0);
  wait(100);
  EXPECT_EQ(type(0), "") << "it waits for hosts with ranks";
  come(1);
  come(2);
  wait(0);
  EXPECT_EQ(type(0), "started");
  EXPECT_EQ(last(0)["table"].size(), 2u);
  EXPECT_EQ(last(1)["num_nodes"], 2);
  end(1, {rank(0, RankEnd::kFailed, now_)});
  end(2, {rank(2, RankEnd::kStopped, now_)});
  EXPECT_EQ(type(0), "report");
  EXPECT_EQ(type(1), "again");
  EXPECT_FALSE(last(1).contains("report"));
  ready(1);
  ready(2);
  wait(0);
  rules_->lose(1, "silent for 10 s", now_);
  rules_->lose(2, "silent for 10 s", now_);
  EXPECT_NE(said_.find("waiting 5.00 s for another host; 0 of 1 to 2 are left"), std::string::npos)
      << said_;
  wait(6);
  EXPECT_EQ(last(0)["code"], 3);
}

// As under a scheduler, whose grace the host that serves does not know.
TEST_F(Rules, HostsHaveTheLongestTimeOfThemToSave) {
  begin(2, 2);
  come(0, -1, /*num_ranks=*/0);
  come(1);
  rules_->join(2, "10.0.0.2", now_);
  rules_->receive(
      2,
      {{"type", "ready"}, {"host", "h2"}, {"save_timeout", 1800}, {"num_ranks", 2}, {"port", 1002}},
      now_);
  wait(0);
  EXPECT_EQ(type(2), "start");
  rules_->receive(1, {{"type", "leave"}, {"signal", 15}}, now_);
  end(1, {rank(0, RankEnd::kStopped, now_)});
  wait(1700);
  EXPECT_EQ(type(2), "stop");
  EXPECT_EQ(said_.find("it does not say how its ranks ended"), std::string::npos) << said_;
  wait(200);
  EXPECT_NE(said_.find("host h2 (10.0.0.2) is lost: it does not say how its ranks ended"),
            std::string::npos)
      << said_;
}

TEST_F(Rules, SurvivesNonsense) {
  begin(2, 2);
  come(0, 0);
  come(1, 0);
  EXPECT_EQ(type(1), "refuse");
  EXPECT_NE(last(1)["why"].get<std::string>().find("--node-rank 0 is taken by host h0"),
            std::string::npos);
  come(2, 1);
  wait(0);
  EXPECT_EQ(type(0), "start");
  for (const Json& nonsense : {Json{{"type", "ended"}}, Json{{"type", 7}}, Json{{"kind", "x"}},
                               Json{{"type", "ended"}, {"succeeded", 3}}}) {
    rules_->receive(77, nonsense, now_);
  }
  rules_->receive(2, {{"type", "ended"}, {"succeeded", "maybe"}}, now_);
  EXPECT_NE(said_.find("host h2 (10.0.0.2) is lost: it sent what makes no sense"),
            std::string::npos)
      << said_;
  EXPECT_EQ(type(0), "stop");
  wait(61);
  EXPECT_NE(said_.find("host h0 (10.0.0.0) is lost: it does not say"), std::string::npos);
}

}  // namespace
}  // namespace convoy::launch
