#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cli/ranks_testing.h"
#include "tests/cli/ring_of_words.h"

// What a training would take, beside what it takes.
namespace convoy {
namespace {

class EstimateCommand : public Ranks {
 protected:
  void SetUp() override {
    Ranks::SetUp();
    write_ring_of_words(folder_, 8);
  }

  static std::string options(const std::string& more) {
    return " --family gpt2 --n_embd 64 --n_layer 4 --n_head 2 --n_positions 128 --data.train "
           "text.txt --data.tokenizer words --block_size 128 --per_device_train_batch_size 4 "
           "--threads 1 --bucket_cap_mb 0 " +
           more;
  }
};

TEST_F(EstimateCommand, IsWhatATrainingTakes) {
  struct Case {
    const char* options;
    int ranks;
    int64_t zero;
    bool recompute = false;
  };
  for (const auto& [more, ranks, zero, recompute] :
       {Case{"", 1, 0},
        Case{"--gradient_accumulation_steps 3", 1, 0},
        Case{"--bf16", 2, 1},
        Case{"", 2, 2},
        Case{"", 2, 3, true},
        Case{"--pipeline_parallel_size 2 --gradient_accumulation_steps 4", 2, 0},
        Case{"--pipeline_parallel_size 2 --gradient_accumulation_steps 4 --pipeline_schedule gpipe",
             2, 0, true},
        Case{"--pipeline_parallel_size 2 --gradient_accumulation_steps 4 --pipeline_schedule gpipe",
             4, 2},
        Case{"--pipeline_parallel_size 2 --gradient_accumulation_steps 2 --pipeline_schedule "
             "interleaved",
             2, 0},
        Case{"--pipeline_parallel_size 2 --gradient_accumulation_steps 8 --pipeline_schedule "
             "interleaved --block_size 64",
             2, 0},
        Case{"--pipeline_parallel_size 2 --gradient_accumulation_steps 4 --pipeline_schedule "
             "interleaved --bf16",
             2, 0, true},
        Case{"--pipeline_parallel_size 3 --gradient_accumulation_steps 6 --n_embd 16", 3, 0},
        Case{"--pipeline_parallel_size 3 --gradient_accumulation_steps 6 --n_layer 6", 3, 0, true},
        Case{"--tensor_parallel_size 2", 2, 0},
        Case{"--tensor_parallel_size 3 --n_embd 60 --n_head 5", 3, 0},
        Case{"--tensor_parallel_size 2 --bf16", 2, 0},
        Case{"--tensor_parallel_size 2 --sequence_parallel", 2, 0},
        Case{"--tensor_parallel_size 2 --sequence_parallel", 2, 0, true},
        Case{"--tensor_parallel_size 2", 2, 0, true},
        Case{"--tensor_parallel_size 2", 4, 1},
        Case{"--tensor_parallel_size 2 --pipeline_parallel_size 2 --gradient_accumulation_steps 4",
             4, 0},
        Case{"--context_parallel_size 2", 2, 0},
        Case{"--context_parallel_size 2", 2, 1, true},
        Case{"--context_parallel_size 3 --n_embd 96 --bf16", 3, 0},
        Case{"--context_parallel_size 2 --tensor_parallel_size 2 --sequence_parallel", 4, 0},
        Case{"--optim lion_32bit", 2, 1},
        Case{"--optim adamw_bf16 --bf16", 2, 2},
        Case{"--pipeline_parallel_size 2 --gradient_accumulation_steps 4 --pipeline_schedule "
             "zero_bubble --pipeline_virtual_stages 1",
             2, 0},
        Case{"--pipeline_parallel_size 2 --gradient_accumulation_steps 4 --pipeline_schedule "
             "zero_bubble",
             2, 0, true},
        Case{"--zero_reduce last --gradient_accumulation_steps 2", 2, 2},
        Case{"--offload_optimizer disk --offload_dir . --bucket_cap_mb 0", 1, 0},
        Case{"--offload_optimizer disk --offload_dir . --bf16 --bucket_cap_mb 0", 2, 1},
        Case{"--offload_optimizer disk --offload_gradients disk --offload_parameters disk "
             "--offload_dir . --gradient_accumulation_steps 2 --bucket_cap_mb 0",
             2, 3},
        Case{"--offload_parameters disk --offload_dir . --bucket_cap_mb 0", 1, 3},
        Case{"--fp16 --gradient_accumulation_steps 2 --zero_keep_mb 1", 2, 3}}) {
    SCOPED_TRACE(fmt::format("{}, {} ranks, zero {}, {}", more, ranks, zero, recompute));
    ASSERT_EQ(run(fmt::format("estimate --json --ranks {} --zero {} {} > estimate.json", ranks,
                              zero, options(more))),
              0)
        << output_;
    Json found;
    for (const auto& way : json("estimate.json")) {
      if (way["zero"] == zero && way["gradient_checkpointing"] == recompute) found = way;
    }
    ASSERT_FALSE(found.is_null());
    const auto train =
        "train --max_steps 3 --save_strategy no --output_dir out --overwrite_output_dir" +
        options(fmt::format("{} --zero {} {} {}", more, zero,
                            recompute ? "--gradient_checkpointing" : "",
                            ranks > 1 ? fmt::format("--nproc {}", ranks) : ""));
    const auto estimated = [&](const char* kind) {
      double most = 0;
      for (const auto& stage : found["stages"]) most = std::max(most, stage[kind].get<double>());
      return most;
    };
    // How long messages are under way varies: of stages the nearest of some trainings counts.
    // GPipe's are up to a tenth apart; of context ranks a message of keys or gradients more is a
    // fifth of what so small a model keeps. Of the last messages of recomputed stages shared memory
    // may need none.
    const bool has_context = std::string(more).find("context_parallel") != std::string::npos;
    const int trainings = found["stages"].size() > 1 || has_context ? 3 : 1;
    const double most_apart = has_context                                ? 0.2
                              : train.find("gpipe") != std::string::npos ? 0.1
                              : recompute && trainings > 1               ? 0.07
                                                                         : 0.05;
    std::vector<double> times;  // of what was estimated
    for (int i = 0; i < trainings; ++i) {
      ASSERT_EQ(run(train), 0) << output_;
      const auto taken = json("out/train_results.json");
      const auto real = [&](const char* kind) {
        return taken.at(fmt::format("memory_{}_bytes_per_rank", kind)).get<double>();
      };
      for (const char* kind : {"parameters", "gradients", "optimizer", "gathered", "buffers"}) {
        EXPECT_EQ(estimated(kind), real(kind)) << kind;
      }
      times.push_back(estimated("activations") / real("activations"));
      if (std::abs(times.back() - 1) <= most_apart) break;
    }
    EXPECT_LE(std::abs(times.back() - 1), most_apart)
        << "the estimated activations are " << fmt::format("{:.3f}", fmt::join(times, ", "))
        << " times what trainings took";
  }
}

TEST_F(EstimateCommand, EvaluationsCountWhereTheyTakeMost) {
  make_sessions(300);
  // Evaluations ask one position of each session, so their rows are many more than a step's.
  for (const auto& [step, rows, evaluates] : {std::tuple{8, 8, false}, {2, 250, true}}) {
    SCOPED_TRACE(rows);
    const auto more = kTiny + fmt::format(
                                  " --per_device_train_batch_size {} "
                                  "--per_device_eval_batch_size {}",
                                  step, rows);
    ASSERT_EQ(run("estimate --json" + more + " > estimate.json"), 0) << output_;
    const auto told = json("estimate.json")[0];
    EXPECT_EQ(told["peak"].get<std::string>().starts_with("while it evaluates"), evaluates);
    ASSERT_EQ(run("train" + more +
                  " --eval_strategy steps --eval_steps 3 --logging_steps 6 --max_steps 6 "
                  "--save_strategy no --output_dir out --overwrite_output_dir"),
              0)
        << output_;
    const auto took = json("out/train_results.json")["memory_activations_bytes_per_rank"];
    EXPECT_NEAR(told["stages"][0]["activations"].get<double>() / took.get<double>(), 1,
                evaluates ? 0.02 : 0.1);
  }
  ASSERT_EQ(run("estimate --device_memory 150KB" + kTiny +
                " --per_device_train_batch_size 2 --per_device_eval_batch_size 250"),
            0)
      << output_;
  expect("Fits: --per_device_eval_batch_size ");
}

// Rows of full length stand for what is not there: nothing takes more.
TEST_F(EstimateCommand, NeedsNoData) {
  const auto sum = [&](const std::string& more) {
    EXPECT_EQ(run("estimate --json" + more + " > estimate.json 2> said"), 0) << output_;
    return json("estimate.json")[0]["stages"][0]["sum"].get<double>();
  };
  const auto with = sum(options(""));
  fs::rename(folder_ / "text.txt", folder_ / "elsewhere.txt");
  EXPECT_EQ(sum(options("")), with);
  EXPECT_EQ(run("train --max_steps 1" + options("")), 1) << output_;
  expect("there is no file text.txt");
  make_sessions(300);
  const auto sessions = kTiny + "--model.body bert --dropout 0 ";
  const auto some = sum(sessions);
  fs::remove(folder_ / "syn/train.parquet");
  EXPECT_GE(sum(sessions), some);
  ASSERT_EQ(run("plan --ranks 2 --max_rows 1" + sessions), 0) << output_;
  expect("syn/train.parquet is not there: random rows are used instead, each of 20 positions");
  EXPECT_EQ(run("plan --ranks 2 --verify 1" + sessions), 1) << output_;
  expect("there is no file syn/train.parquet");
}

TEST_F(EstimateCommand, RefusesWhatATrainingWould) {
  EXPECT_EQ(run("estimate --offload_optimizer cpu" + options("")), 2) << output_;
  expect("the device is the CPU, whose memory that is");
  EXPECT_EQ(run("estimate --offload_optimizer disk" + options("")), 2) << output_;
  expect("needs a folder on a disk");
  ASSERT_EQ(run("estimate --offload_optimizer cpu --on h100-80" + options("")), 0) << output_;
  EXPECT_EQ(run("estimate --on t4-16 --bf16" + options("")), 2) << output_;
  expect("a t4-16 computes no products in bf16");
  ASSERT_EQ(run("estimate --per_device_train_batch_size 100000" + options("")), 0) << output_;
}

TEST_F(EstimateCommand, CountsTheStatesOfEachOptimizer) {
  const auto optimizer_bytes = [&](const std::string& name) {
    EXPECT_EQ(run("estimate --json --optim " + name + options("") + " > estimate.json"), 0)
        << output_;
    return json("estimate.json")[0]["stages"][0]["optimizer"].get<int64_t>();
  };
  const auto usual = optimizer_bytes("adamw_torch");
  EXPECT_GT(usual, 0);
  EXPECT_EQ(optimizer_bytes("lion_32bit") * 2, usual);
  EXPECT_EQ(optimizer_bytes("adamw_bf16") * 2, usual);
}

// With shares of the tokens, too: the most rows are those that fit, and one more does not.
TEST_F(EstimateCommand, OtherMicroBatchesKeepSharesOfTheTokens) {
  const auto sum = [&](int rows, bool shares) {
    EXPECT_EQ(run(fmt::format("estimate --json --ranks 2 --tensor_parallel_size 2 {} {} "
                              "--per_device_train_batch_size {} > estimate.json",
                              shares ? "--sequence_parallel" : "", options(""), rows)),
              0)
        << output_;
    return json("estimate.json")[0]["stages"][0]["sum"].get<double>();
  };
  const double eight = sum(8, true);
  EXPECT_LT(eight, sum(8, false));
  ASSERT_EQ(run(fmt::format("estimate --json --ranks 2 --tensor_parallel_size 2 "
                            "--sequence_parallel {} --per_device_train_batch_size 2 "
                            "--device_memory {} > estimate.json",
                            options(""), static_cast<int64_t>(1.03 * 1.01 * eight))),
            0)
      << output_;
  EXPECT_EQ(json("estimate.json")[0]["most_rows"], 8);
}

TEST_F(EstimateCommand, CountsNotWhatTheAllocatorAddsToABucket) {
  // Buckets of 20.1 MiB of gradients, for which the allocator has 24 MiB.
  const std::string model =
      " --family bert --hidden_size 288 --num_hidden_layers 4 --num_attention_heads 6 "
      "--intermediate_size 1152 --max_position_embeddings 64 --vocab_size 4000 "
      "--random_tokens 20000 --block_size 64 --per_device_train_batch_size 1 --threads 1 --zero 2 ";
  ASSERT_EQ(run("estimate --ranks 2 --json" + model + "> estimate.json"), 0) << output_;
  write_file(folder_ / "run.toml", "");
  ASSERT_EQ(run("bench step run.toml --nproc 2 --steps 3 --json" + model + "> step.json"), 0)
      << output_;
  double predicted = 0;
  for (const auto& way : json("estimate.json")) {
    if (way["asked"].get<bool>()) predicted = way["stages"][0]["sum"];
  }
  EXPECT_NEAR(predicted / json("step.json")["memory_bytes"].get<double>(), 1, 0.01);
}

TEST_F(EstimateCommand, EstimatesLongRowsInLittleMemory) {
  make_folder(folder_ / "long");
  write_file(folder_ / "long/config.json",
             R"({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
                 "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
                 "vocab_size": 32000, "max_position_embeddings": 131072})");
  ASSERT_EQ(run("estimate long --ranks 8 --on h100-80 --block_size 131072 --bf16 "
                "--per_device_train_batch_size 1"),
            0)
      << output_;
  // The activations of one layer alone are some 10 GB.
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 1 << 20);  // KiB
}

// A batch that would fill this host is not run; the blocks' costs come from fewer rows.
TEST_F(EstimateCommand, EstimatesHugeBatchesInLittleMemory) {
  const std::string of =
      " estimate --family gpt2 --n_layer 1 --n_embd 64 --n_head 2 --vocab_size 500 "
      "--random_tokens 20000000 --block_size 64 --per_device_train_batch_size ";
  ASSERT_EQ(shell("ulimit -v 12000000; $convoy" + of + "250000"), 0) << output_;
  expect("Micro-batches of 32 and 64 rows ran");
  const auto bytes = [&](const std::string& rows) {
    EXPECT_EQ(run(of + rows + " --json > estimate.json"), 0) << output_;
    return json("estimate.json")[0]["stages"][0]["activations"].get<double>();
  };
  const double many = bytes("250000"), some = bytes("512");
  EXPECT_GT(many / some, 250000.0 / 512);  // larger pieces save
  EXPECT_LT(many / some, 1.5 * 250000 / 512);
}

TEST_F(EstimateCommand, TellsOfAnArchitectureThatIsUnknown) {
  make_folder(folder_ / "other");
  write_file(folder_ / "other/config.json",
             R"({"model_type": "gptx", "architectures": ["GPTXLMHeadModel"]})");
  for (const char* command : {"estimate other", "plan other --ranks 2 --on h100-80"}) {
    EXPECT_EQ(run(command), 2) << output_;
    expect("model family 'gptx' of ");
    expect("other is unknown; expected one of");
  }
}

TEST_F(EstimateCommand, TellsOfAModelThatNoMachineHolds) {
  ASSERT_EQ(run("estimate" + options("--ranks 4 --n_embd 1024 --n_head 8 --n_layer 1500")), 0)
      << output_;
  expect("4 ranks, 4 data, 1 x 4 rows a step");
  expect("* is what was asked for");
  EXPECT_EQ(run("estimate --ranks 3" + options("--pipeline_parallel_size 2")), 2) << output_;
  expect("--ranks 3 does not divide into 2 stages; try --ranks 4");
  EXPECT_EQ(
      run("estimate --ranks 6 --tensor_parallel_size 2" + options("--pipeline_parallel_size 2")), 2)
      << output_;
  expect("--ranks 6 does not divide into 2 stages x 2 tensor ranks; try --ranks 8");
  EXPECT_EQ(run("estimate --ranks 6 --tp_size 2 --cp_size 2" + options("")), 2) << output_;
  expect("--ranks 6 does not divide into 2 context ranks x 2 tensor ranks; try --ranks 8");
  EXPECT_EQ(run("estimate --ranks 4 --tensor_parallel_size 4" + options("")), 2) << output_;
  expect("tensor_parallel_size = 4 is more than the heads, ids or inner units");
  ASSERT_EQ(run("estimate --ranks 4 --tensor_parallel_size 2" + options("")), 0) << output_;
  expect("4 ranks, 2 data x 2 tensor, 1 x 4 rows a step: memory of the rank that has most");
  EXPECT_EQ(run("estimate --ranks 4 --sequence_parallel" + options("")), 2) << output_;
  expect("sequence_parallel shares out tokens over tensor ranks");
  EXPECT_EQ(run("estimate --ranks 4 --zero 3 --shard_ranks 3" + options("")), 2) << output_;
  expect("shard_ranks = 3 does not divide the 4 ranks");
  EXPECT_EQ(run("estimate --strategy dp" + options("")), 2) << output_;
  expect("estimate is of one process");
  EXPECT_EQ(run("estimate --bf16 --fp16" + options("")), 2) << output_;
  EXPECT_EQ(run("estimate" + options("--zero 2 --offload_parameters disk")), 2) << output_;
  expect("offload_parameters = disk with zero = 2");
}

}  // namespace
}  // namespace convoy
