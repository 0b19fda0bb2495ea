#include <fmt/format.h>

#include <chrono>
#include <tuple>

#include "convoy/base/text.h"
#include "tests/cli/ranks_testing.h"
#include "tests/cli/ring_of_words.h"

// The stages of a pipeline as threads of one process.
namespace convoy {
namespace {

const std::string kTexts =
    " --data.train text.txt --data.valid text.txt --data.tokenizer words --block_size 16"
    " --learning_rate 1e-2 --threads 1 --per_device_train_batch_size 2"
    " --gradient_accumulation_steps 4 --logging_steps 1 ";
/// Its table is tied.
const std::string kGpt2 =
    "train --model_type gpt2 --n_embd 16 --n_layer 4 --n_head 4 --n_positions 32" + kTexts;
const std::string kLlama =
    "train --model_type llama --hidden_size 16 --intermediate_size 32 --num_hidden_layers 4"
    " --num_attention_heads 4 --num_key_value_heads 2 --max_position_embeddings 32"
    " --tie_word_embeddings false" +
    kTexts;

class StagesAsThreads : public Ranks {
 protected:
  void SetUp() override {
    Ranks::SetUp();
    write_ring_of_words(folder_, 8);
  }
};

TEST_F(StagesAsThreads, HaveTheBitsOfProcesses) {
  const auto gpt2 = kGpt2 + "--max_steps 4 ";
  const std::string sessions = "train" + kTiny + "--max_steps 4 --gradient_accumulation_steps 2 ";
  for (const auto& [train, options, replicas] :
       {std::tuple{gpt2, std::string("--pp_size 2"), 1},
        {gpt2, "--pp_size 2 --zero 1", 2},
        {gpt2, "--pp_size 2 --pipeline_schedule interleaved --bf16", 2},
        {gpt2, "--pp_size 2 --pipeline_schedule zero_bubble --gradient_checkpointing", 1},
        {gpt2, "--pp_size 3 --pipeline_schedule auto", 1},
        {sessions, "--pp_size 2 --pipeline_schedule naive", 1},
        {sessions, "--pp_size 2 --pipeline_schedule zero_bubble --pipeline_virtual_stages 1", 2}}) {
    SCOPED_TRACE(options);
    const int stages = options.find("pp_size 3") == std::string::npos ? 2 : 3;
    ASSERT_EQ(run(train + options +
                  fmt::format(" --output_dir processes --overwrite_output_dir --nproc {}",
                              stages * replicas)),
              0)
        << output_;
    ASSERT_EQ(
        run(train + options +
            fmt::format(" --output_dir threads --overwrite_output_dir --replicas {}", replicas)),
        0)
        << output_;
    EXPECT_EQ(losses("threads"), losses("processes"));
    EXPECT_TRUE(model("threads") == model("processes"));
    EXPECT_EQ(json("threads/eval_results.json").at("eval_loss"),
              json("processes/eval_results.json").at("eval_loss"));
  }
  expect("strategy       pipeline (2 stages as threads of one process, 2 replicas of each)");
  expect("ranks          4 x 1 thread, cpu on");
  expect("batch          ");
  expect("by stage       ");
  expect("peak memory by stage: ");
  for (const char* key : {"memory_bytes_of_stage_0", "memory_bytes_of_stage_1"}) {
    const double threads = json("threads/train_results.json").at(key);
    const double processes = json("processes/train_results.json").at(key);
    EXPECT_NEAR(threads, processes, 0.05 * processes) << key;
  }
}

TEST_F(StagesAsThreads, ResumeFromCheckpointsOfProcessesAndBack) {
  const std::string more = "--lr_scheduler_type constant --output_dir ";
  const std::string threads = " --pp_size 2", processes = " --pp_size 3 --nproc 3";
  ASSERT_EQ(run(kLlama + "--max_steps 8 " + more + "whole"), 0) << output_;
  for (const auto& [first, second] :
       {std::pair{threads, processes},
        {processes, threads + " --replicas 1"},
        {threads, ""},
        {std::string(""), threads + " --pipeline_schedule interleaved"}}) {
    SCOPED_TRACE(first + " and then" + second);
    ASSERT_EQ(run(kLlama + "--max_steps 4 --overwrite_output_dir " + more + "out" + first), 0)
        << output_;
    ASSERT_EQ(
        run(kLlama + "--max_steps 8 --resume_from_checkpoint latest " + more + "out" + second), 0)
        << output_;
    EXPECT_EQ(losses("out"), losses("whole"));
    EXPECT_TRUE(model("out") == model("whole"));
  }
}

/// Scores to a rounding: on some processors products of 12 rows round otherwise than those of 14.
void expect_same_items(const std::string& some, const std::string& others) {
  const auto lines = split(some, '\n'), expected = split(others, '\n');
  ASSERT_EQ(lines.size(), expected.size());
  for (size_t n = 0; n < lines.size(); ++n) {
    auto line = split(lines[n], ','), other = split(expected[n], ',');
    constexpr size_t kScore = 4;
    if (n > 0 && line.size() > kScore && other.size() > kScore) {
      EXPECT_NEAR(std::stod(line[kScore]), std::stod(other[kScore]), 1e-6);
      line[kScore] = other[kScore] = "";
    }
    EXPECT_EQ(line, other);
  }
}

TEST_F(StagesAsThreads, EvaluateAndPredict) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2 --output_dir run"), 0) << output_;
  for (const std::string command : {"eval run --json --threads 1 ", "predict run --top-k 3 "}) {
    const bool predicts = command[0] == 'p';
    const auto output = [&](const char* name) {
      return predicts ? fmt::format("--threads 1 --output {}.csv", name)
                      : fmt::format("> {}.json", name);
    };
    ASSERT_EQ(run(command + output("one")), 0) << output_;
    ASSERT_EQ(run(command + "--pp_size 2 --nproc 2 " + output("processes")), 0) << output_;
    ASSERT_EQ(run(command + "--pp_size 2 " + output("threads")), 0) << output_;
    ASSERT_EQ(run(command + "--pp_size 2 --replicas 2 " + output("four")), 0) << output_;
    if (predicts) {
      for (const char* name : {"processes", "threads", "four"}) {
        expect_same_items(read_file(folder_ / (std::string(name) + ".csv")),
                          read_file(folder_ / "one.csv"));
      }
    } else {
      EXPECT_EQ(json("threads.json").at("eval_loss"), json("processes.json").at("eval_loss"));
      EXPECT_NEAR(json("threads.json").at("eval_loss"), json("one.json").at("eval_loss"), 1e-6);
      EXPECT_NEAR(json("four.json").at("eval_loss"), json("one.json").at("eval_loss"), 1e-6);
    }
  }
}

TEST_F(StagesAsThreads, FailedStageIsNamed) {
  const auto failed = [&](const std::string& fault, const std::string& options, int code) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(shell(fmt::format("CONVOY_FAULT={} timeout 60 $convoy {}", fault,
                                kLlama + "--max_steps 4 " + options)),
              code)
        << fault << output_;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  };
  const std::string three = "--pp_size 3 --ddp_timeout 2 ";
  failed("exception@1:backward:3", three, 1);
  expect("error on stage 1 of 3, in step 3, backward block ");
  expect(": [fault] injected exception in backward");
  failed("exception@2:backward_weight:3", three + "--pipeline_schedule zero_bubble", 1);
  expect("error on stage 2 of 3, in step 3, backward");
  failed("oom@0:send:2", three, 1);
  expect("error on stage 0 of 3, in step 2, send ");
  failed("slow@2:forward:3", three, 3);
  expect("the others waited in vain for stage 2 of 3, in step 3, forward block ");
  failed("exception@1:receive:2", three, 1);
  expect("error on stage 1 of 3, in step 2, receive ");
  failed("slow@0:receive:2", three, 3);
  expect("the others waited in vain for stage 0 of 3, in step 2, receive ");
  failed("slow@1:send:2", three, 3);
  expect("the others waited in vain for stage 1 of 3, in step 2, send ");
  failed("slow@2:backward_weight:2", three + "--pipeline_schedule zero_bubble", 3);
  expect("the others waited in vain for stage 2 of 3, in step 2, backward");
  failed("nan@1:reduce:2", "--pp_size 2 --replicas 2", 1);
  expect("the gradient of step 2 is not finite on rank 1");
  failed("exception@3:update:2", "--pp_size 2 --replicas 2", 1);
  expect("error on stage 1 of 2, replica 1 of 2, in step 2, update ");
}

}  // namespace
}  // namespace convoy
