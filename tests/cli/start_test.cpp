#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>

#include "tests/cli/command_testing.h"

// What a rank does before its first step: it waits for others, and is never deaf.
namespace convoy {
namespace {

class Start : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions();
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = std::to_string(ntohs(address.sin_port));
  }
  void TearDown() override {
    ::close(listener_);
    CommandTest::TearDown();
  }

  /// A rank of two whose partner never comes.
  std::string rank(int number, const std::string& options) const {
    return "env RANK=" + std::to_string(number) + " WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 " +
           "MASTER_PORT=" + port_ + " $convoy train" + kTiny + "--max_steps 2 " + options;
  }

  /// Sends a signal while the rank waits; returns its exit code.
  int stopped(int number, const std::string& signal) {
    return shell("timeout --preserve-status -k 30 -s " + signal + " 3 " +
                 rank(number, "--ddp_timeout 300"));
  }

  int64_t lines() const { return std::count(output_.begin(), output_.end(), '\n'); }

  int listener_ = -1;
  std::string port_;
};

TEST_F(Start, ObeysSignalsAndTheTimeoutWithoutAMaster) {
  EXPECT_EQ(stopped(1, "TERM"), 143) << output_;
  EXPECT_EQ(stopped(1, "INT"), 130) << output_;
  EXPECT_EQ(shell(rank(1, "--ddp_timeout 2")), 3);
  expect("rank 1 of 2 met nobody at 127.0.0.1:" + port_ + " within 2 s: Connection refused");
  EXPECT_EQ(lines(), 1) << output_;
}

TEST_F(Start, ObeysSignalsAndTheTimeoutWhenTheMasterNeverAnswers) {
  ASSERT_EQ(::listen(listener_, 50), 0);
  EXPECT_EQ(stopped(1, "TERM"), 143) << output_;
  EXPECT_EQ(shell(rank(1, "--ddp_timeout 2")), 3);
  expect("does not answer as the store of ranks; try");
  EXPECT_EQ(lines(), 1) << output_;
}

TEST_F(Start, ALongWaitSaysWhatItIsFor) {
  ::close(listener_);
  listener_ = -1;
  EXPECT_EQ(shell(rank(0, "--ddp_timeout 7")), 3);
  expect("rank 0 of 2 waits at 127.0.0.1:" + port_ +
         " for the others, for up to 7 s (ddp_timeout)");
  auto elsewhere = rank(0, "--ddp_timeout 1");
  elsewhere.replace(elsewhere.find("127.0.0.1"), 9, "nohost.invalid");
  EXPECT_EQ(shell(elsewhere), 3);
  expect("this host does not know the name");
}

TEST_F(Start, ObeysSignalsAndTheTimeoutWithoutAPartner) {
  ::close(listener_);
  listener_ = -1;
  EXPECT_EQ(stopped(0, "TERM"), 143) << output_;
  EXPECT_EQ(stopped(0, "INT"), 130) << output_;
  EXPECT_EQ(shell(rank(0, "--ddp_timeout 2")), 3);
  expect("rank 1 did not come to 127.0.0.1:" + port_ + " within 2 s; expected 2 ranks; try");
  EXPECT_EQ(lines(), 1) << output_;
}

TEST_F(Start, SettingUpObeysSignals) {
  // It takes an hour, after the model was made.
  EXPECT_EQ(shell("CONVOY_FAULT=slow@0:start:1 timeout --preserve-status -k 30 -s TERM 4 $convoy "
                  "train" +
                  kTiny + "--max_steps 2 --output_dir out"),
            143)
      << output_;
}

TEST_F(Start, ALongFirstStepObeysSignals) {
  // Nothing is there to save until it is done.
  for (const std::string way : {"train", "launch -n 2 train"}) {
    EXPECT_EQ(shell("CONVOY_FAULT=slow@0:forward:1 timeout --preserve-status -k 40 -s TERM 5 "
                    "$convoy " +
                    way + kTiny + "--max_steps 2 --output_dir out"),
              143)
        << output_;
  }
}

// As a careless service manager starts programs.
TEST_F(Start, KeepsItsFilesIntactWithoutStandardDescriptors) {
  for (const char* closed : {"0<&-", "1>&-", "2>&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"}) {
    for (const char* way : {"train", "launch -n 2 train"}) {
      ASSERT_EQ(shell(fmt::format("$convoy {}{}--max_steps 3 --output_dir out "
                                  "--overwrite_output_dir {}",
                                  way, kTiny, closed)),
                0)
          << closed << output_;
      EXPECT_EQ(losses("out").size(), 3u) << "each line of log.jsonl is JSON";
    }
    EXPECT_EQ(shell(fmt::format("$convoy data inspect syn --json {}", closed)), 0) << closed;
    EXPECT_EQ(shell(fmt::format("$convoy nonsense {}", closed)), 2) << closed;
  }
}

TEST_F(Start, NprocContradictsALauncher) {
  const auto refused = [&](const std::string& words, const std::string& part) {
    EXPECT_EQ(shell(words), 2) << output_;
    expect(part);
  };
  const std::string train = "$convoy train" + kTiny + "--max_steps 2 ";
  refused("RANK=0 WORLD_SIZE=1 " + train + "--nproc 2",
          "--nproc = 2 starts ranks, but the environment variables RANK and WORLD_SIZE make this "
          "process rank 0 of 1 already; try without --nproc, or `unset RANK WORLD_SIZE`");
  refused("RANK=0 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 " + train + "--nproc=2",
          "make this process rank 0 of 2 already");
  refused("$convoy launch -n 1 train" + kTiny + "--max_steps 2 --nproc 2",
          "--nproc = 2 starts ranks, but convoy launch made this process rank 0 of 1 already; try "
          "without --nproc");
  refused("$convoy launch -n 1 --nproc 2 train" + kTiny,
          "-n and --nproc both give the number of ranks");
  refused("RANK=0 WORLD_SIZE=2 $convoy eval out --nproc 1", "--nproc = 1 starts ranks, but");
  EXPECT_EQ(shell("MASTER_ADDR=192.0.2.1 " + train + "--nproc 2"), 0) << output_;
}

}  // namespace
}  // namespace convoy
