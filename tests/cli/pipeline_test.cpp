#include <fmt/format.h>

#include <cstdlib>
#include <regex>

#include "convoy/parallel/pipeline/csv.h"
#include "tests/cli/pipeline_testing.h"

// Real processes as the stages of a pipeline.
namespace convoy {
namespace {

TEST_F(PipelineCommand, StagesTrainToTheBitsOfOneDevice) {
  ASSERT_EQ(run(llama("--max_steps 8 --bf16 --output_dir one")), 0) << output_;
  const std::string two_data = "--gradient_accumulation_steps 2 --zero 1 ";
  ASSERT_EQ(run(llama("--max_steps 8 --bf16 --output_dir ddp --nproc 2 " + two_data)), 0)
      << output_;
  for (const auto& [options, whole] :
       {std::pair{std::string("--nproc 2 --pipeline_schedule gpipe"), "one"},
        {"--nproc 3 --pp_size 3 --backend gloo", "one"},
        {"--nproc 2 --pipeline_schedule interleaved --gradient_checkpointing", "one"},
        {"--nproc 3 --pp_size 3 --pipeline_schedule zero_bubble --pipeline_placement v", "one"},
        {"--nproc 2 --pipeline_schedule auto", "one"},
        {"--nproc 4 --pipeline_splits 4 " + two_data, "ddp"}}) {
    SCOPED_TRACE(options);
    ASSERT_EQ(run(llama(fmt::format("--max_steps 8 --bf16 --output_dir stages "
                                    "--overwrite_output_dir --pipeline_parallel_size 2 {}",
                                    options))),
              0)
        << output_;
    EXPECT_EQ(losses("stages"), losses(whole));
    EXPECT_TRUE(model("stages") == model(whole));
    for (const char* key : {"eval_loss", "eval_accuracy"}) {
      EXPECT_NEAR(json("stages/eval_results.json").at(key),
                  json(std::string(whole) + "/eval_results.json").at(key), 1e-6);
    }
  }
  EXPECT_TRUE(fs::exists(folder_ / "stages/pipeline.csv"));
  expect("strategy       pipeline");
  expect("pipeline       2 stages, 1f1b, blocks 0-3 | 4-5; a bubble of about ");
  expect("batch          2 per device x 2 devices x 2 accumulation = 8 in total");
}

TEST_F(PipelineCommand, SavesTheScheduleOfAutoForRunsToFollow) {
  const std::string two = "--max_steps 4 --nproc 2 --pipeline_parallel_size 2 ";
  ASSERT_EQ(run(llama(two + "--pipeline_schedule auto --output_dir found")), 0) << output_;
  const auto told = std::regex_replace(output_, std::regex(R"(\s+)"), " ");
  EXPECT_TRUE(std::regex_search(
      told,
      std::regex(R"(pipeline 2 stages, auto \((\w+|a custom order)(, 2 virtual stages per rank, )"
                 R"(placement (loop|v))?, (split backward|full backward)\), blocks )")))
      << output_;
  const auto csv = read_file(folder_ / "found/pipeline.csv");
  parallel::from_csv(csv, "pipeline.csv", 2, 4);
  // Rank 0 alone needs the file.
  ASSERT_EQ(run(llama(two + "--pipeline_schedule_file found/pipeline.csv --output_dir followed")),
            0)
      << output_;
  expect("2 stages, found/pipeline.csv (");
  EXPECT_EQ(losses("followed"), losses("found"));
  EXPECT_EQ(read_file(folder_ / "followed/pipeline.csv"), csv);
  EXPECT_TRUE(model("followed") == model("found"));
  ASSERT_EQ(run("eval followed --threads 1 --nproc 2 --pp_size 2"), 0) << output_;
  ASSERT_EQ(run("schedule" + llama("--pipeline_parallel_size 2 --pipeline_schedule_file "
                                   "found/pipeline.csv --save again.csv")
                                 .substr(5)),
            0)
      << output_;
  EXPECT_TRUE(std::regex_search(output_, std::regex(R"(found/pipeline\.csv +\d+\.\d % )")))
      << output_;
  EXPECT_EQ(read_file(folder_ / "again.csv"), csv);
}

TEST_F(PipelineCommand, MemoryAndRecomputationChangeNoNumbers) {
  ASSERT_EQ(run(llama("--max_steps 4 --output_dir one")), 0) << output_;
  const std::string two =
      "--max_steps 4 --nproc 2 --pipeline_parallel_size 2 --output_dir two --overwrite_output_dir ";
  for (const auto& [options, told] :
       {std::pair{"--recompute_layers 2,1", ", of which 1, 2, 3 are recomputed; a bubble"},
        {"--pipeline_schedule auto --pipeline_memory 1GiB", "2 stages, auto ("},
        {"--pipeline_memory 64KiB --recompute_layers auto", "are recomputed; a bubble"}}) {
    SCOPED_TRACE(options);
    ASSERT_EQ(run(llama(two + options)), 0) << output_;
    expect(told);
    EXPECT_EQ(losses("two"), losses("one"));
    EXPECT_TRUE(model("two") == model("one"));
  }
  // One device knows numbers of blocks, too.
  ASSERT_EQ(run(llama("--max_steps 4 --recompute_layers 3 --output_dir again")), 0) << output_;
  EXPECT_TRUE(model("again") == model("one"));
}

TEST_F(PipelineCommand, CostsAreReadFromAFile) {
  const std::string two = "--max_steps 1 --nproc 2 --pipeline_parallel_size 2 ";
  Json costs;
  for (const char* name : {"embeddings", "model.layers.0", "model.layers.1", "model.layers.2",
                           "model.layers.3", "head"}) {
    costs[name] = {{"forward", 1}, {"backward", 2}, {"weight", 1}, {"kept", 9}, {"put_off", 3}};
  }
  costs["embeddings"]["forward"] = 30;
  write_file(folder_ / "costs.json", costs.dump());
  ASSERT_EQ(run(llama(two + "--pipeline_costs costs.json")), 0) << output_;
  expect("blocks 0 | 1-5;");
  ASSERT_EQ(
      run("schedule" + llama("--pipeline_parallel_size 2 --pipeline_costs costs.json").substr(5)),
      0)
      << output_;
  expect("Block costs are those of pipeline_costs.");
  costs.erase("head");
  write_file(folder_ / "costs.json", costs.dump());
  EXPECT_EQ(run(llama(two + "--pipeline_costs costs.json")), 2) << output_;
  expect("costs.json has nothing of block 'head'");
}

TEST_F(PipelineCommand, ACheckpointGoesOnWithAnotherNumberOfStages) {
  ASSERT_EQ(run(llama("--max_steps 8 --lr_scheduler_type constant --output_dir whole")), 0)
      << output_;
  ASSERT_EQ(run(llama("--max_steps 4 --lr_scheduler_type constant --output_dir out --nproc 2 "
                      "--pipeline_parallel_size 2")),
            0)
      << output_;
  for (const char* options : {"--nproc 3 --pipeline_parallel_size 3", ""}) {
    ASSERT_EQ(shell("rm -rf more && cp -r out more"), 0);
    ASSERT_EQ(run(llama(fmt::format("--max_steps 8 --lr_scheduler_type constant --output_dir more "
                                    "--resume_from_checkpoint latest {}",
                                    options))),
              0)
        << output_;
    EXPECT_EQ(losses("more"), losses("whole"));
    EXPECT_TRUE(model("more") == model("whole"));
  }
}

// The first stage has next to nothing to compute, and no rank may wait longer than a second.
TEST_F(PipelineCommand, NoStageRunsAheadInAnEvaluation) {
  ASSERT_EQ(run(llama("--max_steps 1 --output_dir out")), 0) << output_;
  std::string line = "w1 w2 w3 w4 w5 w6 w7 w8 w9\n", text;
  for (int i = 0; i < 8000; ++i) text += line;
  write_file(folder_ / "long.txt", text);
  for (const char* backend : {"shm", "gloo"}) {
    EXPECT_EQ(run(fmt::format("eval out --data long.txt --nproc 2 --pp_size 2 --pipeline_splits 1 "
                              "--per_device_eval_batch_size 4 --ddp_timeout 1 --threads 1 "
                              "--backend {}",
                              backend)),
              0)
        << output_;
  }
}

TEST_F(PipelineCommand, EvaluationMindsNothingOfATrainingAlone) {
  ASSERT_EQ(run(llama("--max_steps 1 --output_dir out")), 0) << output_;
  ASSERT_EQ(run("eval out --json --threads 1 > one.json"), 0) << output_;
  ASSERT_EQ(run("eval out --json --threads 1 --nproc 3 --pp_size 3 --pipeline_schedule interleaved "
                "> stages.json"),
            0)
      << output_;
  EXPECT_NEAR(json("stages.json").at("eval_loss"), json("one.json").at("eval_loss"), 1e-6);
  // Two rows a step, which three replicas could not share.
  EXPECT_EQ(run("eval out --strategy dp --replicas 3 --dp_batch total "
                "--per_device_eval_batch_size 6"),
            0)
      << output_;
  ASSERT_EQ(shell("sed -i 's/^tf32 = false/tf32 = true/' out/run.toml && grep -q 'tf32 = true' "
                  "out/run.toml"),
            0);
  EXPECT_EQ(run("eval out --device cpu"), 0) << output_;
  EXPECT_EQ(run("eval out --device cpu --tf32"), 0) << output_;
  expect("without effect here: --tf32");
  ASSERT_EQ(shell("sed -i 's/^fp16 = false/fp16 = true/; s/^report_to = .*/report_to = "
                  "\"tensorboard\"/; s/^dir = .*/dir = \"\"/' out/run.toml"),
            0);
  EXPECT_EQ(run("eval out --device cpu --bf16"), 0) << output_;
}

TEST_F(PipelineCommand, ATiedSessionModelIsEvaluatedAndPredictsThroughAllStages) {
  const std::string tiny = "train" + kTiny + "--max_steps 6 --gradient_accumulation_steps 2 ";
  ASSERT_EQ(run(tiny + "--output_dir one"), 0) << output_;
  const std::string two = "--nproc 2 --pipeline_parallel_size 2 ";
  ASSERT_EQ(run(tiny + two + "--output_dir two"), 0) << output_;
  expect_near(losses("one"), losses("two"));
  ASSERT_EQ(run("eval two --json --threads 1 > alone.json"), 0) << output_;
  ASSERT_EQ(run("eval two --json --threads 1 --nproc 2 --pp_size 2 > stages.json"), 0) << output_;
  for (const char* key : {"eval_loss", "eval_ndcg_at_10"}) {
    EXPECT_NEAR(json("alone.json").at(key), json("stages.json").at(key), 1e-6);
  }
  ASSERT_EQ(run("predict two --top-k 3 --output alone.csv --threads 1"), 0) << output_;
  ASSERT_EQ(run("predict two --top-k 3 --output stages.csv --threads 1 " + two), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "alone.csv"), read_file(folder_ / "stages.csv"));
}

// Their manifests name the tensors of all stages.
TEST_F(PipelineCommand, ACheckpointIsReadThroughAllStages) {
  const std::string two = " --nproc 2 --pipeline_parallel_size 2 ";
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2 --save_steps 2 --output_dir sessions"), 0)
      << output_;
  ASSERT_EQ(run(llama("--max_steps 4 --save_steps 4 --output_dir texts")), 0) << output_;
  const auto expect_same = [&](const std::string& command, const char* key) {
    ASSERT_EQ(run(command + " > alone.json"), 0) << output_;
    ASSERT_EQ(run(command + two + "> stages.json"), 0)
        << output_ << read_file(folder_ / "stages.json");
    EXPECT_NEAR(json("alone.json").at(key), json("stages.json").at(key), 1e-6);
  };
  expect_same("eval sessions/checkpoint-2 --json --threads 1", "eval_loss");
  expect_same("eval texts/checkpoint-4 --json --threads 1", "eval_loss");
  ASSERT_EQ(run("predict sessions/checkpoint-2 --output out.csv --threads 1" + two), 0) << output_;
  const auto more = llama("--max_steps 2 --model_name_or_path texts/checkpoint-4 ");
  ASSERT_EQ(run(more + "--output_dir one"), 0) << output_;
  ASSERT_EQ(run(more + "--output_dir two" + two), 0) << output_;
  EXPECT_EQ(losses("one"), losses("two"));
}

/// docs/pipeline.svg is drawn by this test when CONVOY_UPDATE_DOCS is set, and checked otherwise.
TEST_F(PipelineCommand, SchedulesAreComparedAndDrawn) {
  const std::string eight = llama(
                                "--num_hidden_layers 8 --pipeline_parallel_size 4 "
                                "--gradient_accumulation_steps 8 ")
                                .substr(5);
  ASSERT_EQ(run("schedule" + eight + "--plot out.svg"), 0) << output_;
  for (
      const char* line :
      {"schedule     bubble  above the floor  blocks of each stage           kept for backward by "
       "each",
       "naive        75.0 %          241.3 %  0-2 | 3-4 | 5-6 | 7-9          71.0 KiB | 71.0 KiB | "
       "71.0 KiB | 74.8 KiB",
       "1f1b         29.5 %           21.0 %  0-2 | 3-4 | 5-6 | 7-9          283.9 KiB | 212.9 KiB "
       "| 141.9 KiB | 74.8 KiB",
       "zero_bubble   7.6 %            3.2 %  0-1, 8-9 | 2, 7 | 3, 6 | 4-5   297.6 KiB | ",
       "auto         11.0 %            1.2 %  ", "stage 0  000", "stage 3  ...", "wrote out.svg"}) {
    expect(line);
  }
  const auto file = std::string(CONVOY_SOURCE_DIR) + "/docs/pipeline.svg";
  const auto picture = read_file(folder_ / "out.svg");
  if (std::getenv("CONVOY_UPDATE_DOCS")) write_file(file, picture);
  EXPECT_TRUE(read_file(file) == picture)
      << "try CONVOY_UPDATE_DOCS=1 build/tests/test_cli --gtest_filter=PipelineCommand.*Drawn";
  EXPECT_EQ(run("schedule" + eight + "--plot out.png"), 2) << output_;
  expect("--plot out.png would be a picture in SVG; try a name that ends with .svg");
  EXPECT_FALSE(fs::exists(folder_ / "out.png"));
  // Backwards that compute forwards again take longer, and fill more of the time.
  ASSERT_EQ(run("schedule" + eight + "--gradient_checkpointing"), 0) << output_;
  for (const char* line : {"gpipe        28.9 %", "1f1b         28.9 %", "interleaved  18.2 %"}) {
    expect(line);
  }
  // One that does not go is told beside the others.
  const std::string v = "--pipeline_schedule zero_bubble --pipeline_placement v ";
  ASSERT_EQ(run("schedule" + eight + v + "--save v.csv"), 0) << output_;
  expect("1f1b: [parallel] pipeline_placement = v takes two virtual stages a rank; got 1");
  const auto v_read = parallel::from_csv(read_file(folder_ / "v.csv"), "v.csv", 4, 8);
  EXPECT_TRUE(v_read.pipe.is_v());
  // But the one that is asked for must.
  EXPECT_EQ(run("schedule" + eight + "--pipeline_placement v --save none.csv"), 2) << output_;
  EXPECT_FALSE(fs::exists(folder_ / "none.csv"));
  // Any number of micro-batches goes.
  ASSERT_EQ(run("schedule" + eight + "--gradient_accumulation_steps 6"), 0) << output_;
  expect("interleaved  28.8 %");
  EXPECT_EQ(run("schedule" + eight + "--pipeline_parallel_size 11"), 2) << output_;
  expect("needs as many blocks; got a model of 10 (");
  EXPECT_EQ(run("schedule" + eight + "--pipeline_parallel_size 1"), 2) << output_;
  expect("one stage has no schedule");
}

TEST_F(PipelineCommand, StagesThatAreNumbersAreComparedDrawnAndSaved) {
  const std::string four = "schedule --stages 4 --micro_batches 8 ";
  ASSERT_EQ(run(four + "--forward 1 --backward 1 --weight 1 --save pipe.csv --plot pipe.svg"), 0)
      << output_;
  for (const char* line :
       {"naive        75.0 %          255.6 %  one each        1 | 1 | 1 | 1",
        "1f1b         27.3 %           22.2 %  one each        4 | 3 | 2 | 1",
        "interleaved  15.8 %           11.8 %  loop of 2       5.5 | 4.5 | 3.5 | 2.5",
        "zero_bubble   5.9 %            0.0 %  v               4 | 4 | 4 | 4",
        "auto          5.9 %            0.0 %  v               4 | 4 | 4 | 4",
        "stage 3  ...0aa........1bb", "wrote pipe.svg", "wrote pipe.csv (auto)"}) {
    expect(line);
  }
  const auto saved = read_file(folder_ / "pipe.csv");
  EXPECT_TRUE(saved.starts_with("0F0,0F1,"));
  const auto read = parallel::from_csv(saved, "pipe.csv", 4, 8);
  EXPECT_TRUE(read.pipe.is_v());
  EXPECT_EQ(parallel::to_csv(read.orders), saved);
  // One of these takes longer, and one is asked for by name.
  ASSERT_EQ(run(four + "--forward 1,1,1,2 --send 0.1 --schedule gpipe --save gpipe.csv"), 0)
      << output_;
  expect("wrote gpipe.csv (gpipe)");
  parallel::from_csv(read_file(folder_ / "gpipe.csv"), "gpipe.csv", 4, 8);
  for (const auto& [options, told] :
       {std::pair{"--forward 1,2", "--forward has 2 numbers; expected one, or one for each of 4"},
        {"--weight -1", "--weight -1 is no cost; expected a number from 0 on"},
        {"--forward 1e308 --backward 1e308", "--forward 1e+308 is no cost; expected a number"},
        {"--schedule zb --save x", "pipeline_schedule = zb; expected one of naive, gpipe, 1f1b"},
        {"--placement w", "pipeline_placement = w; expected one of loop, v"},
        {"--micro_batches 0", "--micro_batches: got 0; expected a whole number of at least 1"},
        {"--plot out.png", "try a name that ends with .svg"},
        {"--memory 0.5 --save x", "error: [parallel] pipeline_memory"},
        {"--placement v --virtual_stages 1 --schedule zero_bubble --save x",
         "pipeline_placement = v takes two virtual stages a rank; got 1"}}) {
    EXPECT_EQ(run(four + options), 2) << output_;
    expect(told);
  }
}

TEST_F(PipelineCommand, RefusesPipelinesTooLargeToCompare) {
  EXPECT_EQ(run("schedule --stages 100000 --micro_batches 1"), 2) << output_;
  expect("a pipeline of 100000 stages is too long to be compared; expected at most 1024");
  EXPECT_EQ(run("schedule --stages 2 --micro_batches 10000000"), 2) << output_;
  expect("10000000 micro-batches on 2 stages make more than 2000000 actions");
  EXPECT_EQ(run("schedule" + llama("--pipeline_parallel_size 2 --gradient_accumulation_steps "
                                   "10000000")
                                 .substr(std::string("train").size())),
            2)
      << output_;
  expect("make more than 2000000 actions");
  for (const char* option : {"--save nodir/s.csv", "--plot nodir/s.svg"}) {
    EXPECT_EQ(run(std::string("schedule --stages 2 --micro_batches 2 ") + option), 1) << output_;
    expect("there is no folder nodir");
    EXPECT_FALSE(fs::exists(folder_ / "nodir"));
  }
}

TEST_F(PipelineCommand, BenchComparesSchedulesAndNumbersOfMicroBatches) {
  write_file(folder_ / "run.toml", "model.family = \"llama\"\n");
  const auto bench = [&](const std::string& more) {
    return run("bench strategies run.toml " +
               llama("--max_steps 2 --per_device_train_batch_size 8 "
                     "--gradient_accumulation_steps 1 ")
                   .substr(sizeof("train --model_type llama")) +
               more);
  };
  ASSERT_EQ(bench("--strategies single,zero_bubble,auto --chunks 1,4 --output compared"), 0)
      << output_;
  expect("zero_bubble on 2 ranks, 4 micro-batches (3 of 5)");
  const auto rows = json("compared/strategies.json");
  ASSERT_EQ(rows.size(), 5U);
  for (const auto& row : rows) EXPECT_NEAR(row["loss"], rows[0]["loss"], 1e-5) << row;
  EXPECT_FALSE(rows[0].contains("micro_batches"));
  EXPECT_EQ(rows[2]["micro_batches"], 4);
  // What a schedule has none of is left out.
  ASSERT_EQ(bench("--strategies single,zero_bubble,1f1b --pipeline_schedule zero_bubble "
                  "--pipeline_placement v --pipeline_memory 1GiB --output mixed"),
            0)
      << output_;
  ASSERT_EQ(bench("--strategies single,1f1b-2d --ranks 4 --output both"), 0) << output_;
  const auto two = json("both/strategies.json");
  EXPECT_NEAR(two[1]["loss"], two[0]["loss"], 1e-5);
  EXPECT_EQ(two[1]["micro_batches"], 4);
  for (const auto& [options, told] :
       {std::pair{"--strategies single --chunks 2", "--strategies has none"},
        {"--strategies gpipe --chunks 3", "a step of 8 rows makes no 3 equal micro-batches"},
        {"--strategies 1f1b-2d", "two pipelines need an even number of ranks, 4 at least"}}) {
    EXPECT_EQ(bench(options), 2) << output_;
    expect(told);
  }
}

TEST_F(PipelineCommand, SchedulesOfManyStagesEnd) {
  const auto words = llama("--num_hidden_layers 1030 --pipeline_parallel_size 1024 ").substr(5);
  ASSERT_EQ(shell("timeout 100 $convoy schedule" + words + "> many.txt"), 0);
  EXPECT_NE(read_file(folder_ / "many.txt").find("stage 1023"), std::string::npos);
}

TEST_F(PipelineCommand, StagesWithOtherOptionsDoNotStart) {
  for (const auto& [other, told] :
       {std::pair{"--seed 7", "seed = 7"},
        {"--bf16", "bf16 = true"},
        {"--pipeline_splits 1", "pipeline_splits = 1"},
        {"--gradient_accumulation_steps 2", "gradient_accumulation_steps = 2"}}) {
    SCOPED_TRACE(other);
    EXPECT_NE(
        shell(torchrun("$convoy " + llama("--max_steps 1 --pp_size 2 --ddp_timeout 20 "), other)),
        0);
    expect(told);
    expect("options");
  }
}

TEST_F(PipelineCommand, RefusesOptionsThatDoNotGoTogether) {
  const auto refused = [&](const std::string& options, const char* why) {
    EXPECT_EQ(run(llama("--max_steps 1 " + options)), 2) << output_;
    expect(why);
  };
  refused("--pipeline_parallel_size 2 --nproc 1",
          "needs a process for each stage; got one process; try "
          "--nproc 2");
  refused("--pipeline_parallel_size 2 --backend gloo", "backend = gloo has no effect in one");
  refused("--pipeline_parallel_size 2 --tensor_parallel_size 2",
          "need a process for each tensor rank of each stage, 4 together; got one process");
  refused("--pipeline_parallel_size 8", "; try a smaller pipeline_parallel_size");
  refused("--pipeline_schedule gpipe", "has no effect without a pipeline");
  refused("--pipeline_placement v", "pipeline_placement = v has no effect without a pipeline");
  refused("--nproc 3 --pipeline_parallel_size 2", "got 3 ranks; try --nproc 4");
  refused("--pipeline_memory 1GiB", "pipeline_memory = 1073741824 has no effect without");
  refused("--recompute_layers auto", "recompute_layers = auto fits stages of a pipeline");
  refused("--recompute_layers 3 --gradient_checkpointing", "try one of them");
  const std::string two = "--nproc 2 --pipeline_parallel_size 2 ";
  refused(two + "--pipeline_splits 2,x", "expected numbers of blocks between commas: 4,8; got 'x'");
  refused(two + "--pipeline_memory 1GX", "expected a size such as 4GiB or 500MB");
  refused(two + "--pipeline_memory 80KB", "pipeline_schedule = 1f1b keeps");
  refused(two + "--pipeline_memory 10 --pipeline_schedule auto", "fits no schedule");
  refused(two + "--recompute_layers 1,-1", "expected auto, or a number, or one for each stage");
  refused(two + "--pipeline_virtual_stages 3",
          "pipeline_virtual_stages = 3 has no effect with pipeline_schedule = 1f1b");
  write_file(folder_ / "pipe.csv", "0F0,0B0\n1F0,1B0\n");
  refused(two + "--pipeline_schedule_file pipe.csv",
          "pipe.csv is for 1 micro-batches; gradient_accumulation_steps = 4");
  refused(two + "--pipeline_schedule_file pipe.csv --pipeline_schedule gpipe",
          "and pipeline_schedule = gpipe are two schedules");
  refused(two + "--pipeline_schedule_file pipe.csv --pipeline_placement v",
          "and pipeline_placement = v are two schedules");
  EXPECT_EQ(run(llama("--max_steps 1 --pipeline_schedule_file none.csv " + two)), 1) << output_;
  expect("cannot read none.csv");
  refused(two + "--pipeline_splits 6", "must ascend between 1 and 5");
  refused(two + "--pipeline_placement v",
          "pipeline_placement = v takes two virtual stages a rank; got 1 with pipeline_schedule = "
          "1f1b; try pipeline_placement = loop");
  refused(
      two + "--pipeline_schedule zero_bubble --pipeline_placement v --pipeline_virtual_stages 3",
      "got 3 with pipeline_schedule = zero_bubble");
  refused(two + "--pipeline_schedule interleaved --pipeline_virtual_stages 4",
          "a pipeline of 2 stages with 4 virtual stages each needs as many blocks; got a model of "
          "6 (");
  expect("try pipeline_virtual_stages = 3");
  refused("--nproc 4 --pipeline_parallel_size 4 --pipeline_schedule interleaved",
          "; try pipeline_schedule = 1f1b");
  refused("--nproc 8 --pipeline_parallel_size 8", "; try a smaller pipeline_parallel_size");
  ASSERT_EQ(run(llama("--max_steps 1 --zero 1 " + two)), 0) << output_;
  expect("warning: zero = 1 shards nothing where each stage has one rank; try --nproc 4");
  refused(two + "--zero 3 --offload_parameters disk --offload_dir .",
          "offload_parameters = disk with a pipeline");
  ASSERT_EQ(run(llama("--max_steps 1 --zero 2 --nproc 4 --pipeline_parallel_size 2")), 0)
      << output_;
  expect("warning: zero = 2 with a pipeline");
  ASSERT_EQ(run(llama("--max_steps 1 --output_dir out")), 0) << output_;
  EXPECT_EQ(run("generate out --prompt w1 " + two), 2) << output_;
  expect("pipeline_parallel_size = 2 with generate");
}

}  // namespace
}  // namespace convoy
