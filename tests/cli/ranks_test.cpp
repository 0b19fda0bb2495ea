#include <fmt/format.h>

#include <chrono>
#include <map>
#include <thread>

#include "tests/base/unused_port.h"
#include "tests/cli/ranks_testing.h"

// Real processes as ranks: the ways to start them agree.
namespace convoy {
namespace {

TEST_F(Ranks, EveryWayToStartThemGivesTheSameBits) {
  const auto common = "train" + kTiny + "--max_steps 12 --save_strategy no ";
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 2 --output_dir single"), 0) << output_;
  ASSERT_EQ(run(common + "--strategy dp --replicas 2 --output_dir dp"), 0) << output_;
  expect("strategy       dp");
  expect("DistributedDataParallel, a process per device, is usually faster");
  ASSERT_EQ(run("launch -n 2 " + common + "--output_dir launch"), 0) << output_;
  expect("strategy       ddp");
  expect("rank 0: 150 rows, 19 batches; rank 1: 150 rows, 19 batches");
  ASSERT_EQ(run(common + "--nproc 2 --output_dir nproc"), 0) << output_;
  ASSERT_EQ(shell(torchrun("$convoy " + common + "--output_dir torchrun")), 0) << output_;
  expect("torchrun");
  const auto host = "$convoy launch --nnodes 2 --rdzv_endpoint 127.0.0.1:$port -n 1 " + common +
                    "--output_dir hosts ";
  ASSERT_EQ(shell("export CONVOY_TOKEN=$(head -c 24 /dev/urandom | base64); "
                  "port=$((20000 + $$ % 10000)); " +
                  host + "& " + host + "; code=$?; wait $! && exit $code"),
            0)
      << output_;
  expect("starting on 2 hosts: ");
  const auto expected = model("single");
  for (const char* run : {"dp", "launch", "nproc", "torchrun", "hosts"}) {
    EXPECT_TRUE(model(run) == expected) << run;
  }
}

TEST_F(Ranks, HaveATimeOfOnesOwnToSaveAfterASignal) {
  const auto began = std::chrono::steady_clock::now();
  EXPECT_NE(shell("timeout -s TERM 1 $convoy launch -n 1 --interrupt-grace 0.5 -- sh -c "
                  "'trap \"\" TERM; while :; do sleep 0.1; done'"),
            0);
  expect("stopped by SIGTERM; all ranks have ended");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
  const auto train = "train" + kTiny + "--max_steps 4 --save_steps 2 --output_dir out ";
  ASSERT_EQ(run(train + "--nproc 2 --interrupt-grace 0.0001"), 0) << output_;
  expect("ranks are killed 0.0001 s after a signal that stops the job, and it would be lost; try");
  EXPECT_EQ(run(train + "--interrupt_grace 60"), 2) << output_;
  expect("--interrupt-grace is for ranks that this command starts; try --nproc 2");
  for (const char* wrong : {"-1", "nan", "1e300"}) {
    EXPECT_EQ(run(fmt::format("launch -n 2 --interrupt-grace {} {}", wrong, train)), 2) << output_;
  }
}

TEST_F(Ranks, NameTheLimitOnOpenFiles) {
  EXPECT_EQ(shell("ulimit -n 10; RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
                  std::to_string(unused_port()) + " timeout 60 $convoy train" + kTiny),
            2);
  expect("more files, too few for the connections of its ranks: Too many open files; try ulimit");
}

// They would wait for each other in collectives of other sizes, or in other groups.
TEST_F(Ranks, OptionsThatDecideCollectivesAreComparedBeforeThat) {
  const std::vector<std::pair<std::string, std::string>> pairs{
      {"--bucket_cap_mb 1", "--bucket_cap_mb 2"},
      {"--zero 3 --prefetch 2", "--zero 3 --prefetch 3"},
      {"--zero 1 --shard_ranks 1", "--zero 1 --shard_ranks 2"},
      {"--zero 2 --offload_gradients disk", "--zero 2"},
      {"--pipeline_parallel_size 2", ""},
      {"--tensor_parallel_size 2", ""},
      {"--tensor_parallel_size 2 --sequence_parallel", "--tensor_parallel_size 2"},
      {"--backend gloo", "--backend shm"},
      {"--output_dir out", ""},
      {"--n_head 2", "--n_head 4"},
      {"--data.truncation keep_last", "--data.truncation keep_first"}};
  for (const auto& [first, second] : pairs) {
    const auto port = unused_port();
    const auto rank = [&](int number, const std::string& options) {
      return fmt::format(
          "RANK={} WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={} timeout 60 $convoy train{}"
          "--max_steps 2 --ddp_timeout 20 {}",
          number, port, kTiny, options);
    };
    EXPECT_EQ(shell(fmt::format("({}; echo $? > code) & {}; code=$?; wait; exit $code",
                                rank(0, first), rank(1, second))),
              2)
        << first << output_;
    EXPECT_EQ(read_file(folder_ / "code"), "2\n") << first << output_;
    expect("the options of rank 1 and of rank 0 differ; got ");
  }
}

TEST_F(Ranks, HostsNeedNotShareTheFolderAndTheStartTellsWhoDoesNot) {
  const auto common = "train" + kTiny + "--max_steps 6 --save_steps 3 --output_dir out ";
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 2"), 0) << output_;
  const auto host = [&](const std::string& number) {
    return "(mkdir " + number + " && cd " + number +
           " && ln -s ../syn syn && exec $convoy launch "
           "--nnodes 2 --node-rank " +
           number + " --rdzv_endpoint 127.0.0.1:$port -n 1 " + common + ") ";
  };
  ASSERT_EQ(shell("export CONVOY_TOKEN=0123456789abcdef; port=$((20000 + $$ % 10000)); " +
                  host("0") + "& " + host("1") + "; code=$?; wait $! && exit $code"),
            0)
      << output_;
  expect("output.dir = out of rank 0's host is not seen by rank 1: what they keep goes there");
  EXPECT_TRUE(model("0/out/checkpoint-3") == model("out/checkpoint-3"));
  EXPECT_TRUE(model("0/out") == model("out"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "1/out"));
}

TEST_F(Ranks, AHostfileSaysWhoTheHostsAre) {
  const auto common = "train" + kTiny + "--max_steps 3 --save_strategy no ";
  ASSERT_EQ(run(common + "--nproc 3 --output_dir three"), 0) << output_;
  write_file(folder_ / "hosts", "127.0.0.1 slots=2  # here\nlocalhost slots=1\n");
  const auto host = [&](int place) {
    return fmt::format(
        "$convoy launch --hostfile hosts --node-rank {} --rdzv_endpoint 127.0.0.1:$port {}"
        "--output_dir hosts.out ",
        place, common);
  };
  ASSERT_EQ(shell("export CONVOY_TOKEN=0123456789abcdef; port=$((20000 + $$ % 10000)); " + host(0) +
                  "& " + host(1) + "; code=$?; wait $! && exit $code"),
            0)
      << output_;
  expect("starting on 2 hosts: ");
  EXPECT_TRUE(model("hosts.out") == model("three"));
  write_file(folder_ / "one", "localhost slots=3\n");
  ASSERT_EQ(run("launch -H one " + common + "--output_dir one.out"), 0) << output_;
  EXPECT_TRUE(model("one.out") == model("three"));
  ASSERT_EQ(run("launch -H one -n 1 " + common + "--output_dir one.out --overwrite_output_dir"), 0)
      << output_;
  expect("ranks          1 x ");
  for (const auto& [options, why] :
       {std::pair("--hostfile hosts", "lines 1 and 2 of hosts are both this host; try --node-rank"),
        {"--hostfile hosts --node-rank 2", "--node-rank is 2, but hosts names 2 hosts"},
        {"--hostfile hosts --nnodes 2", "--hostfile and --nnodes both say how many hosts"},
        {"--serve-only", "--serve-only starts no ranks; got a command"},
        {"--serve-only --rdzv-endpont a:1", "unknown option '--rdzv-endpont', did you mean"},
        {"--hostfile missing", "cannot read missing"}}) {
    EXPECT_NE(run(fmt::format("launch {} {}--output_dir none", options, common)), 0) << output_;
    expect(why);
  }
}

TEST_F(Ranks, AHostThatOnlyServesRefusesOptionsOfRanks) {
  for (const auto& [options, why] :
       {std::pair("-n 8", "--serve-only starts no ranks; got --nproc-per-node; try --nnodes N"),
        {"--bind cores", "got --bind"},
        {"-r 3", "got --redirects"},
        {"--master_port 29500", "got --master-port"},
        {"--node-rank 0", "got --node-rank"},
        {"--hostfile hosts", "got --hostfile"},
        {"--grace -1", "got --grace"},
        {"--max-restarts -1", "restarts and threads are -1 and 0"},
        {"--rdzv-conf is_host=false", "--rdzv-conf is_host=false leaves that to another host"}}) {
    EXPECT_EQ(
        run(fmt::format("launch --serve-only --nnodes 2 --rdzv-endpoint 127.0.0.1:1 {}", options)),
        2)
        << output_;
    expect(why);
  }
}

TEST_F(Ranks, ElevenRowGroupsOverTwoRanksTrainOnEveryRow) {
  // As MovieLens-100K is written for Transformers4Rec, whose two ranks get 6 and 5 and hang.
  ASSERT_EQ(run("data synthetic --output films --items 60 --rows 5359"), 0) << output_;
  ASSERT_EQ(run("data inspect films/train.parquet --json"), 0) << output_;
  EXPECT_NE(output_.find("\"row_groups\": 11"), std::string::npos) << output_;
  const std::string common = "train" + kTiny +
                             "--data.path films --num_train_epochs 1 --save_strategy no "
                             "--per_device_train_batch_size 64 ";
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 2 --output_dir alone"), 0) << output_;
  for (const char* partition : {"rows", "row_groups"}) {
    ASSERT_EQ(run("launch -n 2 " + common + "--output_dir " + partition + " --data.partition " +
                  partition),
              0)
        << output_;
    expect("rank 0: 2,680 rows, 42 batches; rank 1: 2,679 rows, 42 batches");
    EXPECT_EQ(json(std::string(partition) + "/trainer_state.json")["epoch"], 1.0);
  }
  EXPECT_TRUE(model("alone") == model("rows")) << "a row was left out or came twice";
}

TEST_F(Ranks, ATraceShowsInstructionsAndCollectivesOfEachRank) {
  const auto train = "train" + kTiny + "--max_steps 8 --save_strategy no --trace_steps 2 ";
  ASSERT_EQ(run(train + "--nproc 2 --output_dir out --trace traces/t.json"), 0) << output_;
  ASSERT_EQ(run(train + "--strategy dp --replicas 2 --output_dir dp --trace dp.json"), 0);
  for (const auto& [file, threads] : std::map<std::string, int>{
           {"traces/t.json", 1}, {"traces/t.rank1.json", 1}, {"dp.json", 2}}) {
    std::map<std::string, int> times;
    const auto trace = json(file);
    for (const auto& event : trace["traceEvents"]) {
      if (event.value("ph", "") == "X") ++times[event["name"].get<std::string>()];
    }
    // Replicas on one device share out the update.
    const std::string reduce = threads == 2 ? "reduce-scatter bucket 0" : "reduce bucket 0";
    for (const auto& name :
         {std::string("forward block 0, micro-batch 0"),
          threads == 2 ? reduce + ", micro-batch 0" : reduce, std::string("update bucket 0"),
          "wait: " + reduce, std::string("wait: reduce loss")}) {
      EXPECT_EQ(times[name], 2 * threads) << name << " in " << file;
    }
    EXPECT_GT(times["aten::mm"], 0) << file;
    const int rank = file == "traces/t.rank1.json" ? 1 : 0, ranks = threads == 2 ? 1 : 2;
    EXPECT_EQ(trace["distributedInfo"]["rank"], rank) << file;
    std::vector<std::string> processes;
    for (const auto& event : trace["traceEvents"]) {
      if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
    }
    const auto name = "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " on ";
    EXPECT_EQ(processes.at(0).find(name), 0) << processes[0];
  }
}

TEST_F(Ranks, ATableTellsWhereEachRankRuns) {
  const auto train = "train" + kTiny + "--max_steps 2 --save_strategy no ";
  ASSERT_EQ(run("launch -n 2 --log-dir logs -r 0:3 " + train), 0) << output_;
  EXPECT_EQ(output_.find("strategy "), std::string::npos) << "rank 0 is kept only: " << output_;
  ASSERT_EQ(run("launch -n 2 " + train), 0) << output_;
  EXPECT_EQ(output_.find("cores"), std::string::npos) << "nothing to tell: " << output_;
  expect("convoy launch started 2 ranks");
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "needs two cores";
  ASSERT_EQ(run("launch -n 2 --numa-binding exclusive " + train), 0) << output_;
  const auto table = output_.find("rank  host");
  ASSERT_NE(table, std::string::npos) << output_;
  EXPECT_NE(output_.find("cpu     0", table), std::string::npos) << output_;
  EXPECT_NE(run("launch -n 2 --tee 3 " + train), 0);
  expect("try --log-dir logs");
  EXPECT_NE(run("launch -n 2 --log-dir logs --tee 5 " + train), 0);
  expect("--tee is '5'; expected 0, 1 (output), 2 (errors) or 3 (both)");
}

TEST_F(Ranks, EvaluationIsTheSameOnTwoRanks) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 12 --output_dir out"), 0) << output_;
  ASSERT_EQ(run("eval out --json"), 0) << output_;
  const auto one = parse_json(output_, "output");
  ASSERT_EQ(run("eval out --json --nproc 2"), 0) << output_;
  const auto two = parse_json(output_, "output");
  EXPECT_EQ(one["eval_samples"], two["eval_samples"]);
  EXPECT_DOUBLE_EQ(one["eval_ndcg_at_10"], two["eval_ndcg_at_10"]);
}

TEST_F(Ranks, RemainingHostsGoOnWhenOneIsLost) {
  // 75 steps an epoch, so that no checkpoint is at its end: three hosts go on in mid-epoch.
  const auto agent = [](const std::string& conf) {
    return "$convoy launch --nnodes 1:4 --rdzv-endpoint 127.0.0.1:$port -n 1 --rdzv-conf " + conf +
           " train" + kTiny +
           "--per_device_train_batch_size 1 --max_steps 600 --save_steps 47 --memory_copy_steps 0 "
           "--output_dir out & ";
  };
  ASSERT_EQ(shell("export CONVOY_TOKEN=$(head -c 24 /dev/urandom | base64); "
                  "port=$((20000 + $$ % 10000)); " +
                  agent("last_call_timeout=3,is_host=true") + "a=$!; " + agent("is_host=false") +
                  agent("is_host=false") + agent("is_host=false") +
                  "b=$!; i=0; until [ -e out/checkpoint-94 -o $i -gt 1500 ]; do sleep 0.02; "
                  "i=$((i + 1)); done; kill -9 $b; wait $a"),
            0)
      << output_;
  expect("strategy       ddp");
  expect("is lost: it closed the connection");
  expect("forming the job anew with 3 of 1 to 4 hosts");
  expect("start 2: going on from out/checkpoint-");
  EXPECT_EQ(json("out/trainer_state.json")["global_step"], 600);
}

TEST_F(Ranks, ThreeTrainAsOneThatAccumulatesAndGoOnAsOne) {
  const auto common = "train" + kTiny + "--max_steps 16 --save_steps 5 ";
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 3 --output_dir one"), 0) << output_;
  ASSERT_EQ(run(common + "--replicas 3 --output_dir dp"), 0) << output_;
  ASSERT_EQ(run("launch -n 3 " + common + "--output_dir ddp"), 0) << output_;
  EXPECT_TRUE(model("dp") == model("one"));
  EXPECT_TRUE(model("ddp") == model("one"));
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 3 --output_dir on "
                         "--resume_from_checkpoint ddp/checkpoint-5"),
            0)
      << output_;
  EXPECT_TRUE(model("on") == model("one"));
}

TEST_F(Ranks, ARestartTakesNoCheckpointOfAnotherJob) {
  const auto train = "train" + kTiny + "--max_steps 4 --save_steps 2 --output_dir out ";
  ASSERT_EQ(run(train), 0) << output_;
  const auto again = "TORCHELASTIC_RESTART_COUNT=1 RANK=0 WORLD_SIZE=1 $convoy " + train;
  ASSERT_EQ(shell("CONVOY_JOB_START=$(date +%s.%N) " + again + "--overwrite_output_dir"), 0)
      << output_;
  EXPECT_FALSE(says("going on from")) << output_;
  ASSERT_EQ(shell(again), 0) << output_;
  expect("start 2: going on from out/checkpoint-4");
  EXPECT_NE(shell(again + "--resume_from_checkpoint false"), 0);
  expect("already holds a run");
}

TEST_F(Ranks, ARestartOfTorchrunWithoutAnIdOverwritesWhatAnotherJobSaved) {
  const auto start = [](const std::string& agent, int number, const std::string& more) {
    return "TORCHELASTIC_RUN_ID=none TORCHELASTIC_ERROR_FILE=logs/none_" + agent + "/attempt_" +
           std::to_string(number) +
           "/0/error.json TORCHELASTIC_RESTART_COUNT=" + std::to_string(number) +
           " RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 $convoy "
           "train" +
           kTiny + "--save_steps 2 --output_dir out --overwrite_output_dir " + more;
  };
  ASSERT_EQ(shell(start("aaaaaaaa", 0, "--max_steps 4")), 0) << output_;
  // The first start of a job died before it opened the folder.
  ASSERT_EQ(shell(start("bbbbbbbb", 1, "--max_steps 6")), 0) << output_;
  EXPECT_FALSE(says("going on from")) << output_;
  // Died after it had saved.
  ASSERT_EQ(shell(start("bbbbbbbb", 2, "--max_steps 8")), 0) << output_;
  expect("start 3: going on from out/checkpoint-6");
}

}  // namespace
}  // namespace convoy
