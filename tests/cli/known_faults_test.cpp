#include <ostream>

#include "tests/cli/ranks_testing.h"

// Silent wrong numbers that users of other engines reported, each a layout in which convoy must
// follow one device (docs/verify.md).
namespace convoy {
namespace {

struct KnownFault {
  const char* name;
  const char* model;
  const char* layout;
};

void PrintTo(const KnownFault& fault, std::ostream* out) {
  *out << fault.name;
}

constexpr const char* kGpt2 =
    "--data.train text.txt --data.tokenizer words --block_size 16 --model_type gpt2 --n_embd 16 "
    "--n_layer 2 --n_head 2 --n_positions 16 ";
constexpr const char* kSession = "--data.path syn --d_model 16 --n_layer 2 --n_head 2 ";
constexpr const char* kSmoothed =
    "--data.path syn --d_model 16 --n_layer 2 --n_head 2 --label_smoothing_factor 0.2 ";

class KnownFaults : public Ranks, public testing::WithParamInterface<KnownFault> {};

TEST_P(KnownFaults, IsNotOurs) {
  std::string text;
  for (int line = 0; line < 60; ++line) {
    for (int word = 0; word < 12; ++word) text += fmt::format("w{} ", (line * 7 + word * 3) % 20);
    text += '\n';
  }
  write_file(folder_ / "text.txt", text);
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int word = 0; word < 20; ++word) words += fmt::format("w{}\n", word);
  write_file(folder_ / "words/vocab.txt", words);
  write_file(folder_ / "run.toml",
             "[train]\nper_device_train_batch_size = 2\nlearning_rate = 1e-2\n"
             "[parallel]\nthreads = 1\n");
  ASSERT_EQ(run(std::string("verify run.toml --steps 2 ") + GetParam().model + GetParam().layout),
            0)
      << output_;
  expect("holds");
}

INSTANTIATE_TEST_SUITE_P(
    Reports, KnownFaults,
    testing::Values(
        KnownFault{"ReplicatedWeightsCountTwiceInNorms", kGpt2, "--tensor_parallel_size 2"},
        KnownFault{"ContextRanksHaveUnequalTargets", kGpt2, "--context_parallel_size 2"},
        KnownFault{"LabelSmoothingByLocalVocabularies", kSmoothed, "--tensor_parallel_size 2"},
        KnownFault{"TiedTablesOverStagesPart", kGpt2, "--pipeline_parallel_size 2"},
        KnownFault{"MeansOverRanksOfUnequalCounts", kSession, "--nproc 2"},
        KnownFault{"Zero2ForgetsAccumulatedGradients", kSession,
                   "--nproc 2 --zero 2 --gradient_accumulation_steps 3"}),
    [](const auto& info) { return std::string(info.param.name); });

class SecondResume : public Ranks {};

TEST_F(SecondResume, GoesOnAsTheFirst) {
  const std::string train =
      "train --data.path syn --d_model 8 --n_layer 2 --n_head 2 --threads 1 --max_steps 9 "
      "--lr_scheduler_type constant --logging_steps 1 --save_steps 3 --quiet --nproc 2 --zero 1 ";
  ASSERT_EQ(run(train + "--output_dir whole"), 0) << output_;
  std::string resume;
  for (const char* steps : {"3", "6", "9"}) {
    ASSERT_EQ(run(train + "--output_dir parts --max_steps " + steps + resume), 0) << output_;
    resume = " --resume_from_checkpoint latest";
  }
  EXPECT_EQ(run("compare whole parts"), 0) << output_;
  expect("The runs read the same rows, and every number that both logged is equal, bit for bit.");
}

}  // namespace
}  // namespace convoy
