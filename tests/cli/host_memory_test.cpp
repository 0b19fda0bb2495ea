#include <fmt/format.h>

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/kept_memory_testing.h"

// Several hosts, each with whole copies in its memory, which its ranks have or other hosts send it:
// ranks and hosts end, and the run goes on from there to the bits of one that nothing disturbs.
namespace convoy {
namespace {

class HostMemory : public KeptMemoryCommand {
 protected:
  static std::string train(const std::string& options) {
    return fmt::format(
        "train{}--max_steps {} --save_strategy no --global_batch_size 32 "
        "--ddp_timeout 10 --bucket_cap_mb 0 {} ",
        kTiny, kSteps, options);
  }

  /// Shell words that start a host with two ranks in the background; `said`: file of its words.
  static std::string host(const std::string& said, const std::string& launch,
                          const std::string& command) {
    return fmt::format(
        "$convoy launch --rdzv-endpoint 127.0.0.1:$port -n 2 {} {} > {} 2>&1 & {}=$!; ", launch,
        command, said, said);
  }

  /// Runs words that start hosts; output_ is what they say.
  int on_hosts(const std::string& words) {
    return shell(
        "export TMPDIR=$PWD/tmp CONVOY_TOKEN=0123456789abcdef port=$((20000 + $$ % 10000)); "
        "copies() { ls -d tmp/*/memory/checkpoint-$1 2> /dev/null | wc -l; }; "
        "wait_for() { i=0; until [ $(copies $1) -ge $2 -o $i -gt 1500 ]; do sleep 0.02; "
        "i=$((i + 1)); done; }; " +
        words);
  }

  /// Trains on two hosts; words that come before: faults.
  int train_on_two(const std::string& before, const std::string& options) {
    const std::string launch = "--nnodes 2 --max-restarts 3 ";
    return on_hosts(before + host("a", launch, train(options)) + host("b", launch, train(options)) +
                    "wait $a; code=$?; wait $b || code=$?; cat a b; exit $code");
  }

  /// Weights of a run of two hosts that nothing disturbs.
  std::string calm(const std::string& options) {
    EXPECT_EQ(train_on_two("", options + "--memory_copy_steps 0 --output_dir calm"), 0) << output_;
    return model_of("calm");
  }
};

TEST_F(HostMemory, ARankThatDiesCostsTheCopysSteps) {
  for (const std::string options : {"", "--zero 3 --shard_ranks host "}) {
    SCOPED_TRACE(options);
    const auto expected = calm(options + "--overwrite_output_dir ");
    const auto more = options + "--memory_copy_steps 3 --output_dir out --overwrite_output_dir";
    ASSERT_EQ(train_on_two("export CONVOY_FAULT=sigkill@3:forward:8; ", more), 0) << output_;
    expect("to memory every 3 steps; two take");
    expect("of each host");
    expect("start 2: going on from the memory copy of step 6");
    EXPECT_TRUE(model_of("out") == expected) << output_;
    expect_nothing_left();
  }
}

TEST_F(HostMemory, HostsThatLackSomeOfTheStateSendEachOtherTheirs) {
  for (const std::string options : {"--zero 1 ", "--zero 3 ", "--pipeline_parallel_size 2 "}) {
    SCOPED_TRACE(options);
    const auto expected = calm(options + "--overwrite_output_dir ");
    const auto more = options + "--memory_copy_steps 3 --output_dir out --overwrite_output_dir";
    ASSERT_EQ(train_on_two("export CONVOY_FAULT=sigkill@3:forward:8; ", more), 0) << output_;
    expect("to memory every 3 steps, which hosts send each other; two take");
    expect("start 2: going on from the memory copy of step 6");
    EXPECT_TRUE(model_of("out") == expected) << output_;
    expect_nothing_left();
  }
}

// A copy rounds the updates that rows missed, so the calm run makes copies, too.
TEST_F(HostMemory, HostsSendEachOtherTheirRowsOfTables) {
  const std::string options =
      "--row_tables true --sampled_softmax true --max_n_samples 10 --memory_copy_steps 3 ";
  ASSERT_EQ(train_on_two("", options + "--output_dir calm"), 0) << output_;
  const auto expected = model_of("calm");
  ASSERT_EQ(train_on_two("export CONVOY_FAULT=sigkill@3:forward:8; ", options + "--output_dir out"),
            0)
      << output_;
  expect("start 2: going on from the memory copy of step 6");
  EXPECT_TRUE(model_of("out") == expected) << output_;
}

TEST_F(HostMemory, ADeathInACopyLeavesAStepThatOneHostHas) {
  const auto expected = calm("");
  for (const std::string fault :
       {"0:copy", "2:copy", "3:copy_sum", "0:copy_end", "1:copy_send", "2:copy_send"}) {
    SCOPED_TRACE(fault);
    const bool sends = fault.ends_with("copy_send");
    ASSERT_EQ(train_on_two(fmt::format("export CONVOY_FAULT=sigkill@{}:8; ", fault),
                           fmt::format("{}--memory_copy_steps 2 --output_dir out "
                                       "--overwrite_output_dir",
                                       sends ? "--zero 3 " : "")),
              0)
        << output_;
    // At its end the other host may have named its copy, which then comes to this one.
    EXPECT_TRUE(says("going on from the memory copy of step 6") ||
                (fault == "0:copy_end" && says("going on from the memory copy of step 8")))
        << output_;
    EXPECT_TRUE(model_of("out") == expected) << output_;
  }
}

TEST_F(HostMemory, AStepThatFailsAgainDropsTheCopiesOfAllHosts) {
  const auto expected = calm("");
  ASSERT_EQ(train_on_two("export CONVOY_FAULT=exit@1:forward:8,exit@1:forward:8:1; ",
                         "--memory_copy_steps 1 --output_dir out"),
            0)
      << output_;
  expect("start 2: going on from the memory copy of step 7");
  expect("step 8 failed twice in a row: the copies in memory are dropped");
  expect("start 3: beginning anew, for there is nothing to go on from");
  EXPECT_TRUE(model_of("out") == expected) << output_;
}

// Even rank 0's, where a host that none depends on serves. The new rank 0 has another path to the
// run's folder.
TEST_F(HostMemory, AHostThatReplacesALostOneGetsTheStateFromAnother) {
  fs::create_directory(folder_ / "elsewhere");
  fs::create_symlink("../syn", folder_ / "elsewhere/syn");
  for (const auto& [lost, options] : std::vector<std::pair<int, std::string>>{
           {0, ""}, {1, ""}, {0, "--zero 3 "}, {1, "--zero 1 "}}) {
    SCOPED_TRACE(options + std::to_string(lost));
    const auto expected = calm(options + "--overwrite_output_dir ");
    const auto training =
        train(options + "--memory_copy_steps 1 --output_dir out --overwrite_output_dir");
    const std::string place = lost == 0 ? "elsewhere" : ".";
    const auto start = [&](const std::string& said, int number) {
      return host(said, fmt::format("--nnodes 2 --node-rank {} --rdzv-conf is_host=false", number),
                  training);
    };
    const std::string dying = lost == 0 ? "a" : "b";
    // Once in the middle of what comes from the other host.
    const std::string dies_again = lost == 0 ? ",exit@3:bring:0:1" : "";
    ASSERT_EQ(on_hosts("$convoy launch --serve-only --nnodes 2 --max-restarts 1 --rdzv-endpoint "
                       "127.0.0.1:$port --rdzv-conf last_call_timeout=30 > login 2>&1 & login=$!; "
                       "export CONVOY_FAULT=slow@2:forward:8" +
                       dies_again + "; " + start("a", 0) + start("b", 1) +
                       "wait_for 7 2; kill -9 $" + dying + "; cd " + place + "; " +
                       start("c", lost) + "cd $OLDPWD; wait $login; code=$?; wait; cat login a b " +
                       place + "/c; exit $code"),
              0)
        << output_;
    expect(lost == 0 ? "start 3: going on from the memory copy of step 7"
                     : "start 2: going on from the memory copy of step 7");
    EXPECT_TRUE(model_of(place + "/out") == expected) << output_;
    fs::remove_all(folder_ / "tmp");  // of the agent that was killed
    fs::create_directory(folder_ / "tmp");
  }
}

// Of the second state replica, whose sums a reading does not add up; and of what a host was sent.
TEST_F(HostMemory, AFlippedBitOfAnyHostIsNoticedAndTheCopyOfAnotherTaken) {
  const std::string launch = "--nnodes 2 --max-restarts 1 --node-rank ";
  for (const auto& [options, everywhere] :
       std::vector<std::pair<std::string, bool>>{{"--shard_ranks host ", false},
                                                 {"--shard_ranks host ", true},
                                                 {"", false},
                                                 {"", true}}) {
    SCOPED_TRACE(options + (everywhere ? "everywhere" : "on one"));
    const auto expected = calm("--zero 3 --overwrite_output_dir " + options);
    const auto training = train("--zero 3 " + options +
                                "--memory_copy_steps 1 --output_dir out --overwrite_output_dir ");
    ASSERT_EQ(
        on_hosts(
            "export CONVOY_FAULT=slow@1:forward:8; mkdir -p tmp/a tmp/b; TMPDIR=$PWD/tmp/a " +
            host("a", launch + "0", training) + "TMPDIR=$PWD/tmp/b " +
            host("b", launch + "1", training) + "hosts='" + (everywhere ? "a b" : "b") +
            "'; i=0; until [ $(ls -d tmp/*/*/memory/checkpoint-7 2> /dev/null | wc -l) -ge 2 "
            "-o $i -gt 1500 ]; do sleep 0.02; i=$((i + 1)); done; sleep 0.2; "
            "for h in $hosts; do f=$(echo tmp/$h/*/memory/checkpoint-7/optimizer.*); "
            "printf '\\377' | dd of=$f bs=1 seek=$(($(stat -Lc %s $f) - 3)) conv=notrunc; done; "
            "wait $a; code=$?; wait $b || code=$?; cat a b; exit $code"),
        0)
        << output_;
    expect(everywhere ? "warning: the memory copy of step 7 is passed over:"
                      : "warning: the memory copy of step 7 is dropped on host 1:");
    expect(everywhere ? "start 2: going on from the memory copy of step 6"
                      : "start 2: going on from the memory copy of step 7");
    EXPECT_TRUE(model_of("out") == expected) << output_;
  }
}

// The fault waits for a copy on its way to the host that replaces another.
TEST_F(HostMemory, DoesNotCrossTheNetworkWhereTheDiskIsFurther) {
  const std::string saving = "--save_strategy steps --save_steps 7 --save_async false ";
  const auto expected = calm(saving);
  const auto training = train(saving + "--memory_copy_steps 3 --output_dir out");
  const auto start = [&](const std::string& said, const std::string& options) {
    return host(said, "--nnodes 2 --max-restarts 1 --rdzv-conf last_call_timeout=30," + options,
                training);
  };
  ASSERT_EQ(on_hosts("export CONVOY_FAULT=slow@2:forward:8,exit@3:bring:0:1; " +
                     start("a", "is_host=true --node-rank 0") +
                     start("b", "is_host=false --node-rank 1") +
                     "i=0; until [ -d out/checkpoint-7 -o $i -gt 1500 ]; do sleep 0.02; "
                     "i=$((i + 1)); done; kill -9 $b; " +
                     start("c", "is_host=false --node-rank 1") +
                     "wait $a; code=$?; wait; cat a c; exit $code"),
            0)
      << output_;
  expect("start 2: going on from out/checkpoint-7");
  EXPECT_FALSE(says("start 3")) << output_;
  EXPECT_TRUE(model_of("out") == expected) << output_;
}

// Another process has that of the second host from the death of its first rank on.
TEST_F(HostMemory, IsLeftAloneWhereAnotherTrainingHasThatOfAHost) {
  const auto expected = calm("");
  const auto training = train("--memory_copy_steps 1 --output_dir out");
  const std::string launch = "--nnodes 2 --max-restarts 1 --node-rank ";
  ASSERT_EQ(on_hosts("export CONVOY_FAULT=lag@2:forward:1,sigkill@2:forward:8; mkdir tmp/b; " +
                     host("a", launch + "0", training) + "TMPDIR=$PWD/tmp/b " +
                     host("b", launch + "1", training) +
                     "i=0; until ls tmp/b/*/memory/.lock > /dev/null 2>&1 || [ $i -gt 1500 ]; do "
                     "sleep 0.02; i=$((i + 1)); done; "
                     "flock tmp/b/*/memory/.lock sleep 15 > /dev/null 2>&1 & "
                     "wait $a; code=$?; wait $b || code=$?; cat a b; exit $code"),
            0)
      << output_;
  expect("start 2: beginning anew, for there is nothing to go on from");
  expect("none to memory: another training of this launch has it");
  EXPECT_TRUE(model_of("out") == expected) << output_;
}

TEST_F(HostMemory, FewerHostsGoOnWithTheBitsOfARunThatStoppedThere) {
  for (const std::string options : {"", "--zero 3 "}) {
    SCOPED_TRACE(options);
    ASSERT_EQ(
        train_on_two("", options + "--memory_copy_steps 0 --save_strategy steps --save_steps 7 "
                                   "--stop_steps 7 --output_dir out"),
        0)
        << output_;
    ASSERT_EQ(
        run("launch -n 2 " + train(options + "--resume_from_checkpoint latest --output_dir out")),
        0)
        << output_;
    const auto expected = model_of("out");
    fs::remove_all(folder_ / "out");
    const auto training = train(options + "--memory_copy_steps 1 --output_dir out ");
    ASSERT_EQ(on_hosts("export CONVOY_FAULT=slow@1:forward:8; " +
                       host("a", "--nnodes 1:2 --rdzv-conf last_call_timeout=1", training) +
                       host("b", "--nnodes 1:2 --rdzv-conf is_host=false", training) +
                       "wait_for 7 2; kill -9 $b; wait $a; code=$?; cat a b; exit $code"),
              0)
        << output_;
    expect("forming the job anew with 1 of 1 to 2 hosts");
    expect("start 2: going on from the memory copy of step 7");
    EXPECT_TRUE(model_of("out") == expected) << output_;
    fs::remove_all(folder_ / "out");
    fs::remove_all(folder_ / "tmp");  // of the agent that was killed
    fs::create_directory(folder_ / "tmp");
  }
}

TEST_F(HostMemory, SendsNothingUnlessItIsAsked) {
  ASSERT_EQ(train_on_two("", "--zero 2 --output_dir out"), 0) << output_;
  EXPECT_FALSE(says("to memory every")) << output_;
}

TEST_F(HostMemory, IsUsedByDefaultWhereTheLauncherMayStartAgain) {
  ASSERT_EQ(train_on_two("", "--output_dir out"), 0) << output_;
  expect("copies to memory every 10 steps");
  const auto training = train("--output_dir out --overwrite_output_dir");
  ASSERT_EQ(on_hosts(host("a", "--nnodes 2", training) + host("b", "--nnodes 2", training) +
                     "wait $a; code=$?; wait $b || code=$?; cat a b; exit $code"),
            0)
      << output_;
  EXPECT_FALSE(says("to memory every")) << output_;
}

// 12 bytes of each of 1,296 parameters, twice.
TEST_F(HostMemory, EstimatesLeaveTwoCopiesOutOfTheHostsMemory) {
  const auto room = [&](const std::string& options) {
    EXPECT_EQ(run("estimate --json --ranks 2" + kTiny + options), 0) << output_;
    return parse_json(output_, "estimate")[0]["room_bytes"].get<int64_t>();
  };
  EXPECT_EQ(room("--device_memory 0 ") - room("--memory_copy_steps 5 "), 12 * 1296);
  ASSERT_EQ(run("estimate --ranks 2" + kTiny + "--memory_copy_steps 5"), 0) << output_;
  expect("less 30.4 KiB for two copies in memory");
}

}  // namespace
}  // namespace convoy
