#include "convoy/job/job.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/comm/thread/thread_engine.h"
#include "tests/train/causal_testing.h"

namespace convoy::train {
namespace {

launch::RankEnvironment ranks(int world, int nodes = 1) {
  launch::RankEnvironment env;
  env.world_size = world;
  env.local_world_size = world / nodes;
  env.num_nodes = nodes;
  env.source = "torchrun";
  return env;
}

std::vector<at::Device> gpus(int count) {
  std::vector<at::Device> out;
  for (int i = 0; i < count; ++i) out.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(i));
  return out;
}

std::string refusal(const options::ParallelArguments& arguments, const launch::RankEnvironment& env,
                    const std::vector<at::Device>& devices) {
  try {
    job::plan_job(arguments, env, devices);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

const std::vector<at::Device> kCpu{at::kCPU};

TEST(Job, AutoFollowsLauncherAndDevices) {
  options::ParallelArguments automatic;
  EXPECT_EQ(job::plan_job(automatic, {}, kCpu).strategy, "single");
  EXPECT_EQ(job::plan_job(automatic, ranks(4), kCpu).strategy, "ddp");
  EXPECT_EQ(job::plan_job(automatic, {}, gpus(1)).strategy, "single");
  auto dp = job::plan_job(automatic, {}, gpus(4));
  EXPECT_EQ(dp.strategy, "dp");
  EXPECT_EQ(dp.devices.size(), 4u);
  EXPECT_NE(dp.reason.find("4 GPUs are visible and no launcher set ranks"), std::string::npos);
  EXPECT_NE(dp.faster.find("convoy launch -n 4"), std::string::npos);
  auto one = ranks(1);
  one.source = "convoy launch";
  EXPECT_EQ(job::plan_job(automatic, one, kCpu).reason,
            "one device is visible and convoy launch started one rank");
  EXPECT_EQ(job::plan_job(automatic, one, gpus(4)).reason,
            "4 GPUs are visible and convoy launch started one rank");
  automatic.replicas = 2;
  EXPECT_EQ(job::plan_job(automatic, {}, kCpu).devices.size(), 2u);
}

TEST(Job, DdpTakesTheLocalDevice) {
  auto env = ranks(8, 2);
  env.local_rank = 3;
  EXPECT_EQ(job::plan_job({}, env, gpus(4)).devices[0], at::Device(at::kCUDA, 3));
}

TEST(Job, RanksAndReplicasShareGpusAndSaySo) {
  auto env = ranks(4);
  env.local_rank = 3;
  const auto ddp = job::plan_job({}, env, gpus(2));
  EXPECT_EQ(ddp.devices, std::vector<at::Device>{gpus(2)[1]});
  EXPECT_EQ(ddp.warnings, std::vector<std::string>{"4 ranks share 2 GPUs and take turns"});
  EXPECT_TRUE(job::plan_job({}, ranks(2), gpus(2)).warnings.empty());

  options::ParallelArguments three;
  three.replicas = 3;
  const auto dp = job::plan_job(three, {}, gpus(2));
  EXPECT_EQ(dp.strategy, "dp");
  EXPECT_EQ(dp.devices, (std::vector<at::Device>{gpus(2)[0], gpus(2)[1], gpus(2)[0]}));
  EXPECT_EQ(dp.warnings, std::vector<std::string>{"3 replicas share 2 GPUs and take turns"});
  three.strategy = "dp";
  EXPECT_EQ(job::plan_job(three, {}, gpus(1)).warnings,
            std::vector<std::string>{"3 replicas share one GPU and take turns"});
  three.replicas = 1;
  EXPECT_EQ(job::plan_job(three, {}, gpus(4)).devices, gpus(1));
  EXPECT_TRUE(job::plan_job(three, {}, gpus(4)).warnings.empty());
}

TEST(Job, StagesAreThreadsWithoutALauncher) {
  options::ParallelArguments two;
  two.parallelism.ranks.pipeline = 2;
  const auto on_cpu = job::plan_job(two, {}, kCpu);
  EXPECT_EQ(on_cpu.strategy, "pipeline");
  EXPECT_EQ(on_cpu.reason, "2 stages as threads of one process");
  EXPECT_EQ(on_cpu.devices, std::vector<at::Device>(2, at::kCPU));
  EXPECT_EQ(on_cpu.num_ranks(), 1);
  EXPECT_EQ(on_cpu.num_devices(), 2);
  EXPECT_EQ(job::plan_job(two, {}, gpus(2)).devices, gpus(2));
  EXPECT_EQ(job::plan_job(two, {}, gpus(5)).devices, gpus(4)) << "two replicas have room";
  const auto shared = job::plan_job(two, {}, gpus(1));
  EXPECT_EQ(shared.warnings, std::vector<std::string>{"2 stages share one GPU and take turns"});
  two.replicas = 2;
  const auto four = job::plan_job(two, {}, gpus(2));
  EXPECT_EQ(four.reason, "2 stages as threads of one process, 2 replicas of each");
  EXPECT_EQ(four.devices,
            (std::vector<at::Device>{gpus(2)[0], gpus(2)[0], gpus(2)[1], gpus(2)[1]}));
  EXPECT_EQ(four.num_ranks(), 2);
  EXPECT_EQ(four.warnings,
            std::vector<std::string>{"4 replicas of stages share 2 GPUs and take turns"});
  // A launcher's ranks are processes, also where it is one, and so are those of --nproc.
  two.replicas = 0;
  const char* told = "needs a process for each stage; got one process; try --nproc 2";
  EXPECT_NE(refusal(two, ranks(1), kCpu).find(told), std::string::npos);
  two.one_process_each = true;
  EXPECT_NE(refusal(two, {}, kCpu).find(told), std::string::npos);
  two.one_process_each = false;
  two.parallelism.ranks.tensor = 2;
  EXPECT_NE(refusal(two, {}, kCpu).find("tensor rank of each stage, 4 together"),
            std::string::npos);
  two.parallelism.ranks.tensor = 1;
  two.strategy = "single";
  EXPECT_NE(refusal(two, {}, kCpu)
                .find("strategy = single is one device, but "
                      "pipeline_parallel_size = 2"),
            std::string::npos);
}

TEST(Job, MisfitsAreRefusedWithTheReason) {
  options::ParallelArguments dp;
  dp.strategy = "dp";
  EXPECT_NE(refusal(dp, ranks(8, 2), kCpu).find("cannot span 2 nodes; try strategy = ddp"),
            std::string::npos);
  EXPECT_NE(refusal(dp, ranks(2), kCpu).find("torchrun started 2 ranks"), std::string::npos);
  options::ParallelArguments ddp;
  ddp.strategy = "ddp";
  EXPECT_NE(refusal(ddp, {}, kCpu).find("convoy launch -n 2"), std::string::npos);
  EXPECT_EQ(refusal(ddp, ranks(2), kCpu), "accepted");
  options::ParallelArguments nccl;
  nccl.backend = "nccl";
  EXPECT_NE(
      refusal(nccl, ranks(4), gpus(2)).find("a GPU for each of the 4 ranks on this host; got 2"),
      std::string::npos);
  EXPECT_EQ(refusal(nccl, ranks(2), gpus(2)), "accepted");
  options::ParallelArguments many;
  many.replicas = 3;
  EXPECT_NE(refusal(many, ranks(2), kCpu).find("replicas = 3 is for DataParallel"),
            std::string::npos);
}

TEST(Job, ABackendNeedsSeveralProcesses) {
  options::ParallelArguments gloo;
  gloo.backend = "gloo";
  for (const char* strategy : {"auto", "single", "dp"}) {
    gloo.strategy = strategy;
    EXPECT_NE(refusal(gloo, {}, kCpu).find("backend = gloo has no effect in one process"),
              std::string::npos)
        << strategy;
  }
  gloo.strategy = "auto";
  EXPECT_EQ(refusal(gloo, ranks(2), kCpu), "accepted");
  EXPECT_EQ(refusal(gloo, ranks(1), kCpu), "accepted") << "the launcher decides how many";
}

TEST(Job, RestartCountKeepsTheStoresKeysApart) {
  auto env = ranks(2);
  env.restart_count = 3;
  EXPECT_EQ(job::store_address(job::plan_job({}, env, kCpu), {}).attempt, 3);
}

TEST(Arguments, HelpIsReturnedForTheProgramToPrint) {
  options::TrainingArguments arguments;
  char name[] = "program", help[] = "--help", rate[] = "--learning_rate=0.5";
  char* asking[] = {name, help};
  constexpr int kWentOn = 7;
  EXPECT_EXIT(
      {
        (void)arguments.read_command_line(2, asking);
        std::_Exit(kWentOn);
      },
      testing::ExitedWithCode(kWentOn), "")
      << "it ended the program";
  const auto text = arguments.read_command_line(2, asking);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("learning_rate"), std::string::npos);
  char* setting[] = {name, rate};
  EXPECT_FALSE(arguments.read_command_line(2, setting));
  EXPECT_EQ(arguments.learning_rate, 0.5);
}

TEST(Arguments, CheckValuesThatAProgramSets) {
  const auto refused = [](const auto& set, const std::string& part) {
    options::TrainingArguments arguments;
    set(arguments);
    try {
      arguments.check(true, true);
      ADD_FAILURE() << part;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused([](auto& it) { it.save_strategy = "stepz"; }, "train.save_strategy = 'stepz' is unknown");
  refused([](auto& it) { it.eval_strategy = "epochs"; }, "did you mean 'epoch'");
  refused([](auto& it) { it.parallel.device = "cuda:9"; }, "device = 'cuda:9' is unknown");
  refused([](auto& it) { it.parallel.strategy = "nope"; }, "strategy = 'nope' is unknown");
  refused([](auto& it) { it.max_grad_norm = std::nan(""); }, "train.max_grad_norm = nan");
  refused([](auto& it) { it.num_train_epochs = std::nan(""); }, "is not finite");
}

TEST(Arguments, ReadADeepspeedFileAsTheProgramConvoyDoes) {
  const auto folder = unique_folder("convoy-test");
  const auto file = (folder / "ds.json").string();
  write_file(file, R"({"zero_optimization": {"stage": 2}, "gradient_clipping": 0.5})");
  options::TrainingArguments arguments;
  char name[] = "./program", option[] = "--deepspeed";
  auto value = file;
  char* typed[] = {name, option, value.data()};
  EXPECT_FALSE(arguments.read_command_line(3, typed));
  EXPECT_EQ(arguments.parallel.parallelism.zero, 2);
  EXPECT_EQ(arguments.max_grad_norm, 0.5);
  value = (folder / "none.json").string();
  char* missing[] = {name, option, value.data()};
  EXPECT_THROW((void)options::TrainingArguments().read_command_line(3, missing), FileError);
  std::filesystem::remove_all(folder);
}

TEST(Arguments, RanksOfOnesOwnProgramAreStartedByALauncher) {
  options::TrainingArguments arguments;
  char name[] = "./program", ranks[] = "--nproc", number[] = "2";
  char* typed[] = {name, ranks, number};
  try {
    (void)arguments.read_command_line(3, typed);
    FAIL() << "taken";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "[config] --nproc is of convoy train; try convoy launch -n 2 ./program");
  }
}

/// Two data ranks, each of two tensor ranks.
TEST(Job, TensorRanksOfADataRankReadTheSameRows) {
  constexpr int kRanks = 4;
  comm::ThreadConnector connector(std::chrono::minutes(2));
  std::array<std::vector<int64_t>, kRanks> rows;
  comm::run_threads(kRanks, [&](int rank) {
    at::set_num_threads(1);
    const comm::Groups groups({{.tensor = 2}, rank, kRanks},
                              [&](const std::vector<int>& members, const std::string& name) {
                                return connector.connect(rank, members, name);
                              });
    auto job = rank_of(groups.world);
    job.groups = groups;
    auto& own = rows[static_cast<size_t>(rank)];
    const auto data = dataset::make_map_dataset(61, [&own](const std::vector<int64_t>& wanted) {
      own.insert(own.end(), wanted.begin(), wanted.end());
      const auto ids = at::tensor(wanted, at::kLong).unsqueeze(1).repeat({1, kLength});
      return nn::Bundle{{"input_ids", ids}, {"labels", ids}};
    });
    Trainer trainer(small_gpt2, short_run(2, 1, 3), data, nullptr, job);
    trainer.train();
  });
  EXPECT_EQ(rows[0].size(), 6U);
  EXPECT_EQ(rows[0], rows[1]);
  EXPECT_EQ(rows[2], rows[3]);
  EXPECT_NE(rows[0], rows[2]);
}

TEST(Job, TensorRanksAreNeighboursAndStateReplicasDivideWhatIsLeft) {
  using parallel::Axis;
  options::ParallelArguments arguments;
  launch::RankEnvironment environment;
  arguments.parallelism.ranks.tensor = arguments.parallelism.ranks.pipeline = 2;
  environment.world_size = 16;
  environment.local_world_size = 8;
  environment.rank = 3;
  for (const auto& [shard_ranks, replicas] : {std::pair("all", 1), {"2", 2}, {"host", 1}}) {
    arguments.shard_ranks = shard_ranks;
    const auto mesh = job::mesh_of(arguments, environment);
    EXPECT_EQ(mesh.ranks_along(Axis::Tensor), (std::vector<int>{2, 3}));
    EXPECT_EQ(mesh.ranks_along(Axis::Pipeline), (std::vector<int>{3, 11}));
    EXPECT_EQ(mesh.degree(parallel::kRows), 4);
    EXPECT_EQ(mesh.degree(Axis::Replicate), replicas) << shard_ranks;
  }
  environment.world_size = 6;
  EXPECT_THROW(job::mesh_of(arguments, environment), UsageError);
}

TEST(Job, ContextRanksReadTheSameRowsAndKeepAStateReplicaTogether) {
  using parallel::Axis;
  options::ParallelArguments arguments;
  launch::RankEnvironment environment;
  arguments.parallelism.ranks.tensor = arguments.parallelism.ranks.context = 2;
  environment.world_size = 24;
  environment.local_world_size = 12;
  environment.rank = 5;
  for (const auto& [shard_ranks, of_replica] :
       {std::pair("all", 12), {"2", 2}, {"4", 4}, {"host", 6}, {"12", 12}}) {
    arguments.shard_ranks = shard_ranks;
    const auto mesh = job::mesh_of(arguments, environment);
    EXPECT_EQ(mesh.ranks_along(Axis::Context), (std::vector<int>{5, 7}));
    EXPECT_EQ(mesh.degree(parallel::kRows), 6);
    EXPECT_EQ(mesh.degree(parallel::kState), of_replica) << shard_ranks;
  }
  for (const char* wrong : {"1", "3", "8", "24"}) {
    arguments.shard_ranks = wrong;
    EXPECT_THROW(job::mesh_of(arguments, environment), UsageError) << wrong;
  }
  environment.world_size = 6;
  arguments.shard_ranks = "all";
  EXPECT_THROW(job::mesh_of(arguments, environment), UsageError);
}

TEST(Job, StateReplicasDivideTheRanks) {
  launch::RankEnvironment environment;
  environment.world_size = 8;
  environment.local_world_size = 4;
  options::ParallelArguments arguments;
  const auto ranks_of_replica = [&] {
    const auto mesh = job::mesh_of(arguments, environment);
    EXPECT_EQ(mesh.degree(parallel::kRows), 8);
    return mesh.degree(parallel::kState);
  };
  EXPECT_EQ(ranks_of_replica(), 8);
  arguments.shard_ranks = "2";
  EXPECT_EQ(ranks_of_replica(), 2);
  arguments.shard_ranks = "host";
  EXPECT_EQ(ranks_of_replica(), 4);
  arguments.shard_ranks = "8";
  EXPECT_EQ(ranks_of_replica(), 8);
  for (const char* wrong : {"3", "0", "-2", "half", "16"}) {
    arguments.shard_ranks = wrong;
    EXPECT_THROW(job::mesh_of(arguments, environment), UsageError) << wrong;
  }
}

TEST(Job, RanksOfAStateReplicaShareTheHostThatShardRanksNames) {
  const parallel::Mesh mesh({.replicate = 2}, 0, 4);
  job::check_state_replicas(mesh, {"a", "a", "b", "b"});
  job::check_state_replicas(mesh, {"a", "a", "a", "a"});
  try {
    job::check_state_replicas(mesh, {"a", "a", "b", "c"});
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(
        std::string(error.what())
            .find(
                "shard_ranks = host lets ranks 2 to 3 keep a state replica together; got rank 2 on "
                "b, rank 3 on c; start the ranks of a host one after the other"),
        std::string::npos)
        << error.what();
  }
  EXPECT_THROW(job::check_state_replicas(mesh, {"a", "b", "a", "b"}), UsageError)
      << "as srun -m cyclic does";
}

}  // namespace
}  // namespace convoy::train
