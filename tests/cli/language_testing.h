#pragma once

#include "tests/cli/command_testing.h"
#include "tests/cli/ring_of_words.h"

namespace convoy {

/// Trains on lines of words that follow each other in a ring, so there is something to learn.
class LanguageCommand : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    write_ring_of_words(folder_, 8);
  }

  static constexpr const char* kTiny =
      " --data.train text.txt --data.tokenizer words --block_size 16 --learning_rate 1e-2"
      " --logging_steps 20 ";
  static constexpr const char* kGpt2 =
      " --family gpt2 --n_embd 16 --n_layer 2 --n_head 2 --n_positions 32 ";
  static constexpr const char* kLlama =
      " --model_type llama --hidden_size 16 --intermediate_size 32 --num_hidden_layers 2"
      " --num_attention_heads 4 --num_key_value_heads 2 --max_position_embeddings 32 ";

  double last(const char* file, const char* key) const { return json(file).at(key).get<double>(); }
};

}  // namespace convoy
