#include <gmock/gmock.h>

#include "convoy/base/files.h"
#include "convoy/data/token_file.h"
#include "tests/cli/language_testing.h"

// Ids that other programs tokenized: Megatron's, llm.c's and nanoGPT's files.
namespace convoy {
namespace {

class TokenFilesCommand : public LanguageCommand {
 protected:
  void SetUp() override {
    LanguageCommand::SetUp();
    ASSERT_EQ(run("data tokenize text.txt --tokenizer words --output ids.parquet"), 0) << output_;
    const auto texts = data::read_token_texts(folder_ / "ids.parquet", "text", std::nullopt);
    std::string ids, index("MMIDIDX\0\0", 9), pointers;
    for (const int32_t id : texts.ids->ids()) put<uint16_t>(ids, id);
    put<uint64_t>(index, 1);
    put<uint8_t>(index, 8);
    put<uint64_t>(index, texts.size());
    put<uint64_t>(index, texts.size() + 1);
    int64_t begin = 0;
    for (const int64_t end : texts.ends) {
      put<int32_t>(index, end - begin);
      put<int64_t>(pointers, 2 * begin);
      begin = end;
    }
    index += pointers;
    for (int64_t d = 0; d <= texts.size(); ++d) put<int64_t>(index, d);
    write_file(folder_ / "megatron.bin", ids);
    write_file(folder_ / "megatron.idx", index);
    write_file(folder_ / "nano.bin", ids);
  }

  template <class T>
  static void put(std::string& to, int64_t value) {
    const auto narrow = static_cast<T>(value);
    to.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
  }

  static constexpr const char* kTrain =
      "train --family gpt2 --n_embd 16 --n_layer 2 --n_head 2 --n_positions 32 --block_size 16 "
      "--learning_rate 1e-2 --logging_steps 1 --threads 1 --report_to none ";

  /// Losses of a training on a file of ids, and of its evaluation.
  std::vector<double> trained(const std::string& file, const std::string& more = "") {
    EXPECT_EQ(run(std::string(kTrain) +
                  "--vocab_size 64 --max_steps 6 --per_device_train_batch_size 2 "
                  "--eval_strategy epoch --output_dir out --data.train " +
                  file + " " + more),
              0)
        << output_;
    auto all = losses("out");
    EXPECT_THAT(all, testing::SizeIs(6));
    all.push_back(last("out/eval_results.json", "eval_loss"));
    EXPECT_EQ(shell("rm -rf out"), 0);
    return all;
  }
};

TEST_F(TokenFilesCommand, GiveTheLossesOfTheSameIdsInParquet) {
  const auto parquet = trained("ids.parquet");
  EXPECT_EQ(trained("megatron.bin"), parquet);
  const auto two = trained("megatron", "--nproc 2 --per_device_train_batch_size 1");
  EXPECT_THAT(two, testing::Pointwise(testing::DoubleNear(1e-5), parquet));
  const std::string whole = "--grouping stream --data.valid ids.parquet";
  EXPECT_EQ(trained("nano.bin", whole), trained("ids.parquet", whole));
  const std::string apart = whole + " --documents apart";
  EXPECT_EQ(trained("megatron.idx", apart), trained("ids.parquet", apart));
}

TEST_F(TokenFilesCommand, ArePartsOfMixtures) {
  ASSERT_EQ(
      run(std::string(kTrain) + "--vocab_size 64 --max_steps 3 --validation_split_percentage 0 "
                                "--mixture 'megatron.bin=0.5,ids.parquet=0.5' --output_dir mixed"),
      0)
      << output_;
  expect("megatron.bin gives ");
}

TEST_F(TokenFilesCommand, SayWhatIsWrong) {
  const std::string train = std::string(kTrain) + "--max_steps 1 --output_dir out ";
  EXPECT_NE(run(train + "--vocab_size 5 --data.train nano.bin"), 0);
  expect("nano.bin holds the token ");
  expect("but the model's vocab_size is 5");
  EXPECT_NE(run(train + "--data.train nano.bin"), 0);
  expect("does not say how many ids their tokenizer has; try --vocab_size N");
  EXPECT_EQ(run("data inspect megatron.bin"), 0) << output_;
  expect("format       Megatron");
  ASSERT_EQ(shell("cp nano.bin other.bin && cp megatron.idx other.idx && printf ab >> other.bin"),
            0);
  EXPECT_NE(run("data inspect other.bin"), 0);
  expect("does not fit other.bin: its sequences have ");
}

}  // namespace
}  // namespace convoy
