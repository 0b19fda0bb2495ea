#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/cli/plan_testing.h"

// The split that is found for a run, and trainings with it.
namespace convoy {
namespace {

TEST_F(PlanCommand, LeavesSlowKindsOutOfTheTableUnlessAllAreAskedFor) {
  const auto lines = [&](const std::string& more) {
    EXPECT_EQ(run("plan --ranks 16 --on h100-80" + options(more)), 0) << output_;
    return std::count(output_.begin(), output_.end(), '\n');
  };
  const auto some = lines("");
  expect("--all prints ");
  const auto all = lines("--all");
  EXPECT_EQ(output_.find("--all prints "), std::string::npos);
  EXPECT_GT(all, some);
}

TEST_F(PlanCommand, IsARunThatTrains) {
  ASSERT_EQ(run("plan --ranks 2 --output plan.toml --plot front.svg" + options("")), 0) << output_;
  expect("On one device, row by row, training takes");
  expect("measured on this host");
  expect("convoy train plan.toml --nproc 2");
  EXPECT_NE(read_file(folder_ / "front.svg").find("<svg"), std::string::npos);
  ASSERT_EQ(run("train plan.toml --nproc 2 --max_steps 2 --save_strategy no --output_dir out"), 0)
      << output_;
  expect("= 8 in total");
}

TEST_F(PlanCommand, CountsTheMemoryOfATraining) {
  const auto all = plan("--ranks 2 --bucket_cap_mb 0 --max_rows 4");
  for (const char* name :
       {"ddp", "zero 1", "zero 3", "pipeline", "tensor", "tensor x sequence", "context"}) {
    SCOPED_TRACE(name);
    const auto planned = family(all, name);
    ASSERT_FALSE(planned.is_null());
    const auto flags = fmt::format(
        "--pipeline_parallel_size {} --tensor_parallel_size {} --context_parallel_size {} "
        "--zero {} --gradient_accumulation_steps {} --bucket_cap_mb 0{}{}{}{}",
        planned["pipeline_parallel_size"].get<int>(), planned["tensor_parallel_size"].get<int>(),
        planned["context_parallel_size"].get<int>(), planned["zero"].get<int>(),
        planned["gradient_accumulation_steps"].get<int>(),
        planned["gradient_checkpointing"].get<bool>() ? " --gradient_checkpointing" : "",
        planned["sequence_parallel"].get<bool>() ? " --sequence_parallel" : "",
        planned["reshard_after_forward"].get<bool>() ? "" : " --reshard_after_forward false",
        planned["pipeline_parallel_size"] == 1
            ? ""
            : " --pipeline_schedule " + planned["pipeline_schedule"].get<std::string>());
    ASSERT_EQ(run("estimate --json --ranks 2 " + options(flags) +
                  fmt::format(" --per_device_train_batch_size {} > estimate.json",
                              planned["per_device_train_batch_size"].get<int>())),
              0)
        << output_;
    double estimated = 0;
    for (const auto& way : json("estimate.json")) {
      if (!way["asked"].get<bool>()) continue;
      for (const auto& stage : way["stages"]) {
        estimated = std::max(estimated, stage["sum"].get<double>());
      }
    }
    EXPECT_LE(std::abs(planned["memory_bytes"].get<double>() / estimated - 1), 0.02);
  }
}

TEST_F(PlanCommand, SharesOutWhatDoesNotFit) {
  const std::string large = "--n_embd 256 --n_layer 8 --bucket_cap_mb 1 ";  // 103 MB of state
  EXPECT_EQ(plan("--ranks 2 " + large)["best"]["fits"], "yes");
  const auto little = plan("--ranks 2 --device_memory 90MB " + large);
  EXPECT_NE(little["best"]["family"], "ddp");
  EXPECT_EQ(family(little, "ddp")["fits"], "no");
  EXPECT_NE(family(little, "ddp")["verdict"].get<std::string>().find("short"), std::string::npos);
  EXPECT_EQ(run("plan --ranks 2 --device_memory 10MB" + options(large)), 1) << output_;
  expect("Nothing fits: the smallest split");
}

TEST_F(PlanCommand, OffloadsWhatHasNoRoom) {
  const std::string large = "--n_embd 256 --n_layer 8 --bucket_cap_mb 1 --max_rows 1 ";  // 103 MB
  const auto found = [&](const char* memory) {
    const auto best =
        plan(fmt::format("--ranks 1 --device_memory {} --offload_dir . --output plan.toml {}",
                         memory, large))["best"];
    EXPECT_NE(best["family"].get<std::string>().find("offload"), std::string::npos) << best;
    // Within the limit, which the plan has, too.
    EXPECT_EQ(run("train plan.toml --max_steps 3 --save_strategy no --overwrite_output_dir "
                  "--output_dir out"),
              0)
        << output_;
    const auto counted = json("out/train_results.json")["memory_bytes_per_rank"].get<double>();
    EXPECT_NEAR(best["memory_bytes"].get<double>() / counted, 1, 0.02) << best;
    return best;
  };
  const auto all = found("58MB"), some = found("75MB");
  EXPECT_EQ(some["offload_parameters"], "none");
  EXPECT_EQ(all["offload_parameters"], "disk");
  EXPECT_GT(all["offloaded_bytes"], some["offloaded_bytes"]);
  EXPECT_EQ(run("plan --ranks 1 --offload_dir missing" + options(large)), 1) << output_;
  expect("offload_dir");
}

TEST_F(PlanCommand, PlansForDevicesThatAreElsewhere) {
  const auto all =
      plan("--ranks 16 --on h100-80 --global_batch_size 128 --bf16 --n_embd 512 --n_head 8");
  EXPECT_FALSE(all["best"].is_null());
  EXPECT_EQ(all["best"]["per_device_train_batch_size"].get<int>() *
                all["best"]["gradient_accumulation_steps"].get<int>() *
                all["best"]["data_parallel_size"].get<int>(),
            128);
  EXPECT_EQ(all, plan("--ranks 16 --on h100-80 --global_batch_size 128 --bf16 --n_embd 512 "
                      "--n_head 8"));
  write_file(folder_ / "cluster.toml",
             "[cluster]\nhosts = 2\ndevices = 4\n[device]\nname = \"t4-16\"\n[inside]\n"
             "gb_per_second = 12\n[between]\ngb_per_second = 1.2\n");
  EXPECT_FALSE(plan("--cluster cluster.toml")["best"].is_null());
  write_file(folder_ / "cluster.toml",
             "[cluster]\nhosts = 2\ndevices = 2\nkinds = [\"h100-80\", \"t4-16\"]\n[inside]\n"
             "gb_per_second = 12\n[between]\ngb_per_second = 1.2\n");
  EXPECT_FALSE(plan("--cluster cluster.toml --n_layer 6")["best"].is_null());
}

// A GPU takes scores in pieces of 512 MiB, which some rows have and one has not.
TEST_F(PlanCommand, MemoryOfASplitDoesNotDependOnTheSplitsBesideIt) {
  const std::string of =
      "plan --on t4-16 --ranks 2 --vocab_size 400000 --global_batch_size 16 "
      "--family gpt2 --n_embd 64 --n_layer 2 --n_head 4 --n_positions 128 "
      "--random_tokens 40000 --block_size 128 --max_rows ";
  const auto on_one_device = [&](const std::string& rows) {
    EXPECT_EQ(run(of + rows), 0) << output_;
    const auto begins = output_.find("On one device"), ends = output_.find("That fits");
    return ends == std::string::npos ? output_ : output_.substr(begins, ends - begins);
  };
  const auto alone = on_one_device("1");
  EXPECT_NE(alone.find(" of state"), std::string::npos) << alone;
  EXPECT_EQ(on_one_device("8"), alone);
}

// Small kernels take as long on each, since a host launches them: products alone would say that the
// faster is eight times as fast.
TEST_F(PlanCommand, OrderOfKindsOfDevicesChangesLittle) {
  const auto seconds = [&](const std::string& kinds) {
    write_file(folder_ / "cluster.toml", "[cluster]\nhosts = 1\ndevices = 2\nkinds = [" + kinds +
                                             "]\n[inside]\ngb_per_second = 12\n");
    return family(plan("--cluster cluster.toml"), "zero 1")["seconds"].get<double>();
  };
  const double fast_first = seconds("\"h100-80\", \"t4-16\"");
  EXPECT_NEAR(seconds("\"t4-16\", \"h100-80\""), fast_first, 0.05 * fast_first);
}

// Of several numbers of ranks a row each, the same as of each alone, and a drawing.
TEST_F(PlanCommand, ComparesNumbersOfRanks) {
  const std::string of = " --on h100-80 --global_batch_size 128 --bf16";
  const auto all = plan("--ranks 2,16 --plot ranks.svg" + of)["ranks"];
  ASSERT_EQ(all.size(), 2U);
  for (const auto& row : all) {
    const auto ranks = row["ranks"].get<int>();
    EXPECT_EQ(row["best"], plan(fmt::format("--ranks {}{}", ranks, of))["best"]);
    EXPECT_EQ(row["global_batch_size"], 128);
    EXPECT_NEAR(row["rows_per_second"].get<double>(), 128 / row["best"]["seconds"].get<double>(),
                1e-6);
  }
  const auto drawn = read_file(folder_ / "ranks.svg");
  EXPECT_NE(drawn.find("A step of the fastest split"), std::string::npos);
  EXPECT_NE(drawn.find("Memory of the rank that needs most"), std::string::npos);
  ASSERT_EQ(run("plan --ranks 2,16" + of + options("")), 0) << output_;
  expect("rows a second");
  EXPECT_EQ(run("plan --ranks 2,16 --output plan.toml" + of + options("")), 2) << output_;
  expect("--output takes one number of ranks; got --ranks 2,16; try one of these numbers");
  EXPECT_EQ(run("plan --ranks 2,64 --device_memory 1MiB" + of + options("")), 1) << output_;
  expect("short");
}

TEST_F(PlanCommand, TakesAModelsFolder) {
  write_file(folder_ / "tiny/config.json",
             R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
                 "vocab_size": 500, "max_position_embeddings": 64, "hidden_act": "silu",
                 "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
  for (const char* place : {"tiny", "tiny/config.json"}) {
    ASSERT_EQ(run(fmt::format("plan {} --block_size 32 --ranks 8 --on a100-40 --json > plan.json",
                              place)),
              0)
        << output_;
    EXPECT_FALSE(json("plan.json")["best"].is_null());
  }
}

// Where it lies is where the run that trained it says what its sessions are.
TEST_F(PlanCommand, TakesASessionModelsFolder) {
  ASSERT_EQ(run("data synthetic --output shop"), 0) << output_;
  ASSERT_EQ(run("train --data.path shop --output_dir trained --max_steps 2 --save_steps 2"), 0)
      << output_;
  for (const char* place : {"trained", "trained/checkpoint-2", "trained/config.json"}) {
    ASSERT_EQ(run(fmt::format("plan {} --ranks 8 --on a100-40 --json > plan.json", place)), 0)
        << output_;
    EXPECT_FALSE(json("plan.json")["best"].is_null());
    ASSERT_EQ(run(fmt::format("estimate {} --ranks 8", place)), 0) << output_;
  }
}

TEST_F(PlanCommand, SaysWhatDoesNotGo) {
  EXPECT_EQ(run("plan --ranks 4 --on h10-80" + options("")), 2) << output_;
  expect("did you mean 'h100-80'");
  write_file(folder_ / "one.toml", "[device]\nname = \"t4-16\"\n");
  EXPECT_EQ(run("plan --ranks 4 --cluster one.toml" + options("")), 2) << output_;
  expect("--ranks 4 on a cluster of 1 device; try --ranks 1");
  EXPECT_EQ(run("plan --cluster one.toml --on t4-16" + options("")), 2) << output_;
  expect("try one of them");
  EXPECT_EQ(run("plan --verify 1 --on t4-16" + options("")), 2) << output_;
  expect("--verify tries plans on this host");
  EXPECT_EQ(run("plan --device_memory lots" + options("")), 2) << output_;
  expect("device_memory = lots; expected a size such as 4GiB");
  EXPECT_EQ(run("plan --strategy dp" + options("")), 2) << output_;
  expect("a process for each rank");
  for (const char* command : {"plan", "estimate"}) {
    for (const char* of_gpu : {"--tf32", "--device cuda", "--backend nccl"}) {
      EXPECT_EQ(run(fmt::format("{} {}", command, of_gpu) + options("")), 2) << output_;
      expect("is for GPUs, and this is about the CPU of this host; try --on h100-80");
    }
  }
  for (const char* command : {"plan", "estimate", "profile --output costs.json", "bench plan"}) {
    EXPECT_EQ(run(fmt::format("{} --bf16 --fp16", command) + options("")), 2) << output_;
    expect("bf16 and fp16 are both on");
  }
  EXPECT_EQ(run("profile --output costs.json --tf32" + options("")), 2) << output_;
  expect("tf32 is for GPUs, and this is about the CPU of this host; try convoy plan --on h100-80");
  EXPECT_EQ(run("plan --ranks 1,2 --all" + options("")), 2) << output_;
  expect("--all prints the kinds of splits of one number of ranks; got --ranks 1,2");
}

TEST_F(PlanCommand, SaysWhatItTakesNoNoticeOf) {
  ASSERT_EQ(run("plan --ranks 2 --on h100-80 --zero 3 --pipeline_parallel_size 2" + options("")), 0)
      << output_;
  expect("--pipeline_parallel_size, --zero are for the plan to decide");
  ASSERT_EQ(run("plan --ranks 2 --on h100-80 --zero 3 --prefetch 4" + options("")), 0) << output_;
  expect("--zero is for the plan to decide, which takes no notice of it");
  for (const char* word : {"--replicas 2", "--pipeline_memory 1GB", "--pipeline_splits 1",
                           "--pipeline_schedule_file none.csv"}) {
    EXPECT_EQ(run(fmt::format("plan --ranks 2 --on h100-80 {}", word) + options("")), 0) << output_;
    expect("is for the plan to decide, which takes no notice of it");
  }
  EXPECT_EQ(run("plan --ranks 2 --on v100-32 --bf16" + options("")), 2) << output_;
  expect("a v100-32 computes no products in bf16; try --fp16");
  ASSERT_EQ(run("plan --ranks 2 --on v100-32 --fp16" + options("")), 0) << output_;
  EXPECT_EQ(run("plan --verify -1" + options("")), 2) << output_;
  fs::create_directory(folder_ / "there");
  EXPECT_EQ(run("plan --output there" + options("")), 2) << output_;
  expect("--output there is a folder; try there/plan.toml");
  EXPECT_EQ(run("plan --plot not/there.svg" + options("")), 2) << output_;
  expect("there is no folder not");
  ASSERT_EQ(run("train --print-config" + options("> run.toml")), 0) << output_;
  EXPECT_EQ(run("profile run.toml --output run.toml"), 2) << output_;
  expect("--output run.toml is the run itself");
  EXPECT_EQ(run("plan run.toml --output run.toml"), 2) << output_;
  expect("--output run.toml is the run itself");
  EXPECT_EQ(run("plan there --ranks 2"), 2) << output_;
  expect("there is a folder without config.json");
  fs::copy_file(folder_ / "run.toml", folder_ / "there/run.toml");  // as a run that has not ended
  EXPECT_EQ(run("plan there --ranks 2"), 0) << output_;
}

TEST_F(PlanCommand, WritesWhatADeepspeedFileSaysBesideThePlan) {
  write_file(folder_ / "ds.json", R"({"train_batch_size": 16, "zero_optimization": {"stage": 3}, )"
                                  R"("optimizer": {"type": "AdamW", "params": {"lr": 0.005}}})");
  ASSERT_EQ(run("plan --ranks 2 --deepspeed ds.json --output 'my plan.toml'" + options("")), 0)
      << output_;
  expect("train it with: convoy train 'my plan.toml'");
  ASSERT_EQ(run("train 'my plan.toml' --nproc 2 --max_steps 2 --save_strategy no --output_dir out"),
            0)
      << output_;
  const auto written = read_file(folder_ / "out/run.toml");
  EXPECT_NE(written.find("learning_rate = 0.005"), std::string::npos);
  EXPECT_NE(written.find("global_batch_size = 16"), std::string::npos) << written;
}

// Here what was predicted for other devices says nothing.
TEST_F(PlanCommand, PlansForOtherDevicesTrainHereToo) {
  ASSERT_EQ(run("plan --ranks 2 --on h100-80 --output plan.toml" + options("")), 0) << output_;
  expect("(on random tokens; on text with --random_tokens 0 --data.train FILE)");
  ASSERT_EQ(run("train plan.toml --nproc 2 --max_steps 2 --save_strategy no --output_dir out"), 0)
      << output_;
  expect("this run was planned for h100-80: on this host's processor its predictions do not hold");
  EXPECT_EQ(output_.find("predicted"), output_.rfind("predicted"));
}

// Options of the file that the plan decides may not fit the typed ones.
TEST_F(PlanCommand, AFilesOptionsNeedNotFitTypedOnes) {
  for (const auto& [written, typed] : std::vector<std::pair<std::string, std::string>>{
           {"--zero 3 --offload_parameters cpu", "--zero 1"},
           {"--zero 1 --pipeline_parallel_size 2 --gradient_accumulation_steps 2", "--zero 3"},
           {"--tensor_parallel_size 2 --sequence_parallel", "--tensor_parallel_size 1"}}) {
    ASSERT_EQ(run("train --print-config" + options(written + " --output_dir out > run.toml")), 0)
        << output_;
    EXPECT_EQ(run("plan run.toml --ranks 2 --on h100-80 " + typed), 0) << typed << "\n" << output_;
  }
}

// What the plan decides a run may have said otherwise.
TEST_F(PlanCommand, OptionsThatDecideTheSameGiveWay) {
  ASSERT_EQ(run("train --print-config" +
                options("--pipeline_parallel_size 2 --pipeline_splits 2 --gradient_accumulation_"
                        "steps 2 --zero 3 --prefetch 2 --output_dir out > run.toml")),
            0)
      << output_;
  ASSERT_EQ(run("plan run.toml --ranks 2 --global_batch_size 8 --json --verify 2 --output "
                "plan.toml 2> said > plan.json"),
            0)
      << output_;
  for (const auto& tried : json("plan.json")["verified"]) EXPECT_EQ(tried["failure"], "");
  ASSERT_EQ(run("train plan.toml --nproc 2 --max_steps 1 --save_strategy no"), 0) << output_;
}

TEST_F(PlanCommand, TakesTheFastestThatWasTriedAndKeepsWhatWasMeasured) {
  ASSERT_EQ(run("plan --ranks 2 --verify 1 --json --output plan.toml" + options("> plan.json")), 0)
      << output_;
  const auto told = json("plan.json");
  const auto& tried = told["verified"];
  ASSERT_GE(tried.size(), 2U) << "the best one, ddp and ZeRO";
  const auto file = read_file(folder_ / "plan.toml");
  std::string fastest;
  double seconds = std::numeric_limits<double>::infinity();
  bool ddp = false, zero = false;
  for (const auto& one : tried) {
    const auto split = one["split"].get<std::string>();
    ddp = ddp || (split.starts_with("2 data,") && split.find("zero") == std::string::npos);
    zero = zero || split.starts_with("2 data, zero");
    EXPECT_EQ(one["failure"], "");
    EXPECT_NE(file.find(" " + split), std::string::npos) << file;
    if (one["measured_seconds"].get<double>() >= seconds) continue;
    seconds = one["measured_seconds"];
    fastest = split;
  }
  EXPECT_TRUE(ddp && zero) << tried.dump(1);
  EXPECT_EQ(told["best"]["split"], fastest);
  EXPECT_GE(told["time_spread"].get<double>(), 0.1);

  // What was predicted is told beside what the run takes; other ranks are refused.
  ASSERT_EQ(run("train plan.toml --nproc 2 --max_steps 4 --save_strategy no --output_dir out"), 0)
      << output_;
  expect(fastest + "; predicted: ");
  expect("plan: step time predicted ");
}

TEST_F(PlanCommand, ARunIsOfTheRanksThatItWasPlannedFor) {
  ASSERT_EQ(run("train --print-config --planned_ranks 2" + options("> plan.toml")), 0) << output_;
  EXPECT_EQ(run("train plan.toml --max_steps 2 --save_strategy no --output_dir other"), 2);
  expect("this run was planned for 2 ranks; got 1; try --nproc 2");
  ASSERT_EQ(run("train plan.toml --max_steps 2 --save_strategy no --zero 0 --output_dir other"), 0)
      << output_;
  expect("--zero changes a run that was planned");
  ASSERT_EQ(run("train plan.toml --max_steps 2 --save_strategy no --block_size 16 --nproc 2 "
                "--output_dir shorter"),
            0)
      << output_;
  expect("--block_size changes a run that was planned");
}

TEST_F(PlanCommand, LeavesOutWhatFailsWhenItIsTried) {
  // Only a sharded state is gathered.
  ASSERT_EQ(shell("CONVOY_FAULT=exit@1:gather:1 $convoy plan --ranks 2 --verify 1 --json" +
                  options("> plan.json")),
            0)
      << output_;
  const auto told = json("plan.json");
  int failed = 0;
  for (const auto& one : told["verified"]) {
    const bool shards = one["split"].get<std::string>().find("zero") != std::string::npos;
    EXPECT_EQ(one["failure"] != "", shards) << one.dump();
    failed += one["failure"] != "";
  }
  EXPECT_GT(failed, 0);
  EXPECT_EQ(told["best"]["zero"], 0);
}

TEST_F(PlanCommand, SaysWhereAllThatWasTriedFailed) {
  EXPECT_EQ(shell("CONVOY_FAULT=exit@1:backward:1 $convoy plan --ranks 2 --verify 1" + options("")),
            1)
      << output_;
  expect("All plans that were tried failed.");
}

TEST_F(PlanCommand, KnowsAKindOfDeviceWhereThisHostsAreAskedFor) {
  EXPECT_EQ(run("plan --ranks 2 --device h100-80" + options("")), 2);
  expect("try --on h100-80");
}

}  // namespace
}  // namespace convoy
