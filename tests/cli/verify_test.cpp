#include <ostream>

#include "tests/cli/ranks_testing.h"

namespace convoy {
namespace {

class VerifyCommand : public Ranks {
 protected:
  int verify(const std::string& more, const std::string& fault = "") {
    write_file(folder_ / "run.toml",
               "[train]\nper_device_train_batch_size = 4\n"
               "learning_rate = 1e-2\nseed = 7\n"
               "[data]\npath = \"syn\"\n"
               "[model]\nd_model = 16\nn_layer = 4\nn_head = 2\n"
               "dropout = 0.1\nbody = \"gpt2\"\n[parallel]\nthreads = 1\n");
    return shell(fault + "$convoy verify run.toml " + more);
  }

  /// A run that trains on text with a vocabulary of words.
  void write_text_run() {
    std::string text, words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int line = 0; line < 60; ++line) {
      for (int word = 0; word < 12; ++word) text += fmt::format("w{} ", (line * 7 + word * 3) % 20);
      text += '\n';
    }
    for (int word = 0; word < 20; ++word) words += fmt::format("w{}\n", word);
    write_file(folder_ / "text.txt", text);
    write_file(folder_ / "words/vocab.txt", words);
    write_file(folder_ / "run.toml",
               "[train]\nper_device_train_batch_size = 2\ngradient_accumulation_steps = 2\n"
               "learning_rate = 1e-2\nweight_decay = 0.1\nwarmup_steps = 1\n"
               "[parallel]\nthreads = 1\n");
  }
};

TEST_F(VerifyCommand, FindsTheSameBitsInDistributedDataParallel) {
  ASSERT_EQ(verify("--nproc 2"), 0) << output_;
  expect("holds");
  expect("bits");
  expect("The model is cut: --model.n_layer 2;");
}

TEST_F(VerifyCommand, FindsTensorRanksEqualToRounding) {
  ASSERT_EQ(verify("--tensor_parallel_size 2 --whole"), 0) << output_;
  expect("to rounding: tensor ranks add parts of products");
  expect("To rounding: at most 1e-06 of the first loss");
  EXPECT_FALSE(says("The model is cut"));
}

TEST_F(VerifyCommand, PrintsJson) {
  ASSERT_EQ(verify("--nproc 2 --zero 2 --gradient_accumulation_steps 2 --json 2>/dev/null"), 0)
      << output_;
  const auto found = parse_json(output_, "what it printed");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0]["same_bits"].get<bool>());
  EXPECT_EQ(found[0]["promised"], "bits");
}

TEST_F(VerifyCommand, TriesEveryLayout) {
  ASSERT_EQ(verify("--nproc 2 --all-layouts --steps 2"), 0) << output_;
  for (const char* layout :
       {"2 data", "zero 3", "2 tensor", "sequence_parallel", "2 context", "2 pipeline",
        "zero_bubble", "offloaded to disk", "threads", "gradient_checkpointing"}) {
    expect(layout);
  }
  EXPECT_FALSE(says("BROKEN"));
  // In the words of the rank that refuses.
  expect("refused: [parallel] context_parallel_size = 2 needs");
}

// Gemma 3 is more sensitive to bf16 than the usual tolerances allow, on one device, too.
TEST_F(VerifyCommand, AllowsForWhatBf16ChangesOnOneDevice) {
  const std::string sensitive =
      "$convoy verify run.toml --whole --steps 2 --bf16 --tensor_parallel_size 2 --warmup_steps 0 "
      "--data.train text.txt --data.tokenizer words --block_size 16 --model_type gemma3_text "
      "--hidden_size 16 --intermediate_size 32 --num_hidden_layers 4 --num_attention_heads 4 "
      "--num_key_value_heads 2 --head_dim 4 --query_pre_attn_scalar 4 --sliding_window 5 "
      "--sliding_window_pattern 2 --max_position_embeddings 32";
  write_text_run();
  ASSERT_EQ(shell(sensitive), 0) << output_;
  expect("On one device bf16 alone changes the gradients by");
  EXPECT_EQ(shell("CONVOY_FAULT=double@1:layer:1 " + sensitive), 1) << output_;
  expect("BROKEN");
}

/// A wrong number that a rank computes somewhere, in a layout; twenty kinds and more.
struct Mutation {
  const char* fault;
  const char* layout;
};

void PrintTo(const Mutation& mutation, std::ostream* out) {
  *out << mutation.fault << " " << mutation.layout;
}

class VerifyFinds : public VerifyCommand, public ::testing::WithParamInterface<Mutation> {};

TEST_P(VerifyFinds, AMutation) {
  const auto& [fault, layout] = GetParam();
  const std::string options = std::string("--nproc 2 --steps 2 ") + layout;
  EXPECT_EQ(verify(options, std::string("CONVOY_FAULT=") + fault + " "), 1) << output_;
  EXPECT_TRUE(says("BROKEN")) << output_;
}

INSTANTIATE_TEST_SUITE_P(
    Engine, VerifyFinds,
    ::testing::Values(
        // A gradient is counted twice by one rank: in its backward, and where ranks add.
        Mutation{"double@1:backward:1", ""}, Mutation{"double@0:backward:2", ""},
        Mutation{"double@1:reduce:1", ""}, Mutation{"double@0:reduce:2", "--strategy ddp"},
        Mutation{"double@1:backward:1", "--zero 2 --gradient_accumulation_steps 2"},
        Mutation{"double@1:reduce:2", "--zero 3"},
        // A rank computes with other weights than the rest, or keeps stale ones.
        Mutation{"double@1:forward:1", ""}, Mutation{"double@1:gather:2", "--zero 3"},
        Mutation{"skip@1:update:1", ""}, Mutation{"skip@1:update:1", "--zero 1"},
        Mutation{"skip@0:update:2", "--zero 3"}, Mutation{"double@1:update:1", "--zero 1"},
        Mutation{"double@0:offload:1", "--zero 1 --offload_optimizer disk --offload_dir ."},
        // A part of a layer is added twice.
        Mutation{"double@1:layer:1", "--tensor_parallel_size 2"},
        Mutation{"double@0:layer_backward:1", "--tensor_parallel_size 2"},
        Mutation{"double@1:layer:1", "--tensor_parallel_size 2 --sequence_parallel"},
        Mutation{"double@0:layer_backward:2", "--tensor_parallel_size 2 --sequence_parallel"},
        // A stage computes with other weights, or counts its gradients twice.
        Mutation{"double@0:forward:1",
                 "--pipeline_parallel_size 2 --gradient_accumulation_steps 2"},
        Mutation{"double@1:backward:1",
                 "--pipeline_parallel_size 2 --gradient_accumulation_steps 2"},
        Mutation{"double@0:backward_weight:1",
                 "--pipeline_parallel_size 2 --gradient_accumulation_steps 4 "
                 "--pipeline_schedule zero_bubble"},
        // A rank's gradients are missing from a sum.
        Mutation{"skip@1:reduce:1", ""}, Mutation{"skip@0:reduce:1", "--zero 2"},
        // Targets, or a part of the norm that clips, count twice.
        Mutation{"double@1:count:1", ""}, Mutation{"double@0:norm:1", ""},
        Mutation{"double@1:norm:1", "--tensor_parallel_size 2"},
        // Rows are dropped out by the masks of others.
        Mutation{"double@1:mask:1", ""}));

// The loss scale begins too large for this model: steps are skipped on both sides.
TEST_F(VerifyCommand, TakesStepsThatFp16SkipsAlike) {
  write_text_run();
  const std::string words =
      "$convoy verify run.toml --whole --fp16 --nproc 2 --steps 12 --data.train text.txt "
      "--data.tokenizer words --block_size 16 --model_type gemma3_text --hidden_size 16 "
      "--intermediate_size 32 --num_hidden_layers 2 --num_attention_heads 4 "
      "--num_key_value_heads 2 --head_dim 4 --query_pre_attn_scalar 4 --sliding_window 5 "
      "--sliding_window_pattern 2 --max_position_embeddings 32 --gradient_accumulation_steps 1";
  ASSERT_EQ(shell(words), 0) << output_;
  expect("holds");
}

TEST_F(VerifyCommand, TellsAFailureOfTheMachineFromABrokenPromise) {
  const char* killed = "CONVOY_FAULT=sigkill@1:saving:3 ";
  EXPECT_EQ(verify("--nproc 2", killed), 1) << output_;
  expect("failed, so nothing was compared: ");
  EXPECT_FALSE(says("BROKEN")) << output_;
  EXPECT_FALSE(says("equal")) << output_;
  EXPECT_EQ(verify("--nproc 2 --json 2>/dev/null", killed), 1) << output_;
  const auto found = parse_json(output_, "what it printed");
  EXPECT_TRUE(found[0]["gradients"].is_null()) << found;
  EXPECT_FALSE(found[0]["holds"].get<bool>());
}

// Thousands of rows would take longer than the steps.
TEST_F(VerifyCommand, EvaluatesNoRow) {
  ASSERT_EQ(verify("--nproc 2", "CONVOY_FAULT=exception@0:evaluation:3 "), 0) << output_;
}

TEST_F(VerifyCommand, FindsSmallFaultsInBf16WhereProductsAreThoseOfOneDevice) {
  write_text_run();
  const std::string words =
      "$convoy verify run.toml --bf16 --pipeline_parallel_size 2 --steps 2 --data.train text.txt "
      "--data.tokenizer words --block_size 16 --model_type gpt2 --n_embd 16 --n_layer 2 --n_head 2 "
      "--n_positions 16";
  ASSERT_EQ(shell(words), 0) << output_;
  expect("to rounding: stages that share a parameter add in turn");
  expect("1e-03 of the gradients");
  EXPECT_EQ(shell("CONVOY_FAULT=double@1:backward:1 " + words), 1) << output_;
  expect("BROKEN");
}

TEST_F(VerifyCommand, SaysWhatItCannotCompare) {
  EXPECT_EQ(verify("--nproc 1"), 2);
  expect("one rank is the reference itself; try --nproc 2");
  EXPECT_EQ(verify("--nproc 2 --strategy single"), 2);
  expect("--nproc 2 has no effect with strategy = single; try --strategy auto");
  EXPECT_EQ(verify("--nproc 2 --steps 99999999999999999999"), 2);
  expect("expected at most 9223372036854775807");
  EXPECT_EQ(verify("--nproc 3 --tensor_parallel_size 2"), 2);
  expect("do not divide");
  EXPECT_EQ(verify("--nproc 2 --data.path nothing"), 1);
  expect("data.path = nothing is not there");
}

TEST_F(VerifyCommand, StartsMoreRanksThanThereAreCores) {
  ASSERT_EQ(verify("--tensor_parallel_size 2 --pipeline_parallel_size 2 --steps 2 "
                   "--gradient_accumulation_steps 2"),
            0)
      << output_;
  expect("2 pipeline x 2 tensor");
  ASSERT_EQ(verify("--strategy dp --replicas 4 --steps 2 --per_device_train_batch_size 2"), 0)
      << output_;
  expect("4 DataParallel threads");
}

/// `--against transformers`.
class VerifyAgainst : public VerifyCommand {
 protected:
  static constexpr const char* kGpt2 =
      "--data.train text.txt --data.tokenizer words --block_size 16 --model_type gpt2 --n_embd 16 "
      "--n_layer 2 --n_head 2 --n_positions 16 --resid_pdrop 0.1 ";

  int against(const std::string& more, const std::string& before = "") {
    write_text_run();
    return shell(before + "$convoy verify run.toml --against transformers " + more);
  }
};

TEST_F(VerifyAgainst, SaysWhatTransformersLacks) {
  EXPECT_EQ(verify("--against transformers"), 2);
  expect("transformers has no session model; try without --against");
  EXPECT_EQ(against(std::string(kGpt2) + "--python ./nothing"), 2);
  expect("needs a Python with torch, transformers and safetensors; got ./nothing, which cannot be");
  EXPECT_EQ(against(kGpt2, "CONVOY_PYTHON=/bin/false "), 2);
  expect("/bin/false has no such modules; try --python PATH, or the variable CONVOY_PYTHON");
  EXPECT_EQ(against(std::string(kGpt2) + "--python /bin/true"), 2);
  expect("/bin/true has no such modules");
  EXPECT_EQ(against(std::string(kGpt2) + "--optim lion_32bit --python ./nothing"), 2);
  expect("trains Hugging Face's model with AdamW; got optim = lion_32bit");
  EXPECT_EQ(against(std::string(kGpt2) + "--fp16 --python ./nothing"), 2);
  expect("compares fp32 and bf16; got fp16");
}

/// Where CONVOY_PYTHON has transformers.
TEST_F(VerifyAgainst, FollowsTransformersAndFindsAWrongGradient) {
  if (std::getenv("CONVOY_PYTHON") == nullptr) GTEST_SKIP() << "CONVOY_PYTHON is not set";
  ASSERT_EQ(against(kGpt2), 0) << output_;
  expect("one device, against transformers ");
  expect("to rounding: Hugging Face's model adds in its own order");
  ASSERT_EQ(against(std::string(kGpt2) + "--nproc 2"), 0) << output_;
  expect("2 data");
  EXPECT_EQ(against(kGpt2, "CONVOY_FAULT=double@0:backward:2 "), 1) << output_;
  expect("BROKEN");
}

}  // namespace
}  // namespace convoy
