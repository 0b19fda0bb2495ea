#pragma once

#include <string>

#include "tests/cli/ranks_testing.h"
#include "tests/cli/ring_of_words.h"

namespace convoy {

class PipelineCommand : public Ranks {
 protected:
  void SetUp() override {
    Ranks::SetUp();
    write_ring_of_words(folder_, 8);
  }

  /// A Llama of six blocks whose tables are not tied.
  static std::string llama(const std::string& more) {
    return "train --model_type llama --hidden_size 16 --intermediate_size 32 --num_hidden_layers 4"
           " --num_attention_heads 4 --num_key_value_heads 2 --max_position_embeddings 32"
           " --tie_word_embeddings false --data.train text.txt --data.tokenizer words"
           " --block_size 16 --learning_rate 1e-2 --per_device_train_batch_size 2 --threads 1"
           " --gradient_accumulation_steps 4 --logging_steps 1 --save_steps 4 " +
           more;
  }
};

}  // namespace convoy
