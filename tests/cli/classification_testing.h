#pragma once

#include "tests/cli/command_testing.h"

namespace convoy {

/// Sentences of ten words; those with "good" in them are positive.
class ClassificationCommand : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\n";
    for (int i = 0; i < 12; ++i) vocabulary += "w" + std::to_string(i) + "\n";
    write_file(folder_ / "words/vocab.txt", vocabulary);
    write_file(folder_ / "train.csv", table(400, 0, ','));
    write_file(folder_ / "valid.tsv", table(60, 1000, '\t'));
  }

  /// Columns opinion, number, verdict and second.
  static std::string table(int rows, int seed, char separator) {
    const std::string gap(1, separator);
    std::string out = "opinion" + gap + "number" + gap + "verdict" + gap + "second\n";
    for (int row = seed; row < seed + rows; ++row) {
      const bool good = row * 7 % 5 < 2;
      const int length = 2 + row % 6, place = row % length;
      for (int i = 0; i < length; ++i) {
        const auto other = "w" + std::to_string((row * 5 + i * 3) % 12);
        out += (i > 0 ? " " : "") + (i != place ? other : good ? "good" : "bad");
      }
      out += gap + std::to_string(good ? 7 : 3) + gap + (good ? "positive" : "negative") + gap +
             "w" + std::to_string(row % 12) + (good ? " good" : " bad") + "\n";
    }
    return out;
  }

  static constexpr const char* kTiny =
      " --hidden_size 16 --num_hidden_layers 1 --num_attention_heads 2 --intermediate_size 32"
      " --max_position_embeddings 32 --learning_rate 1e-2 --data.tokenizer words ";
  static constexpr const char* kTask =
      "train --task classification --data.train train.csv --data.text opinion --data.label verdict"
      " --max_length 16 ";

  double last(const char* file, const char* key) const { return json(file).at(key).get<double>(); }
};

}  // namespace convoy
