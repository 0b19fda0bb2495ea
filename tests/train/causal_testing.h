#pragma once

#include "convoy/models/gpt2.h"
#include "convoy/models/llama.h"
#include "tests/train/testing.h"

namespace convoy::train {

inline constexpr int64_t kIds = 70, kLength = 16;

inline nn::BlockList small_gpt2() {
  models::Gpt2Config config;
  config.vocab_size = kIds;
  config.n_embd = 24;
  config.n_head = 3;
  config.n_layer = 2;
  config.n_positions = kLength;
  return config.make_blocks();
}

inline nn::BlockList small_llama() {
  models::LlamaConfig config;
  config.vocab_size = kIds;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 2;
  config.num_hidden_layers = 2;
  config.max_position_embeddings = kLength;
  config.attention_dropout = 0.1;
  return config.make_blocks();
}

/// Rows that follow a rule; labels of every third row's first half are ignored.
inline std::shared_ptr<Dataset> texts() {
  return make_map_dataset(61, [](const std::vector<int64_t>& rows) {
    auto first = at::tensor(rows, at::kLong).unsqueeze(1);
    auto ids = (first * 5 + at::arange(kLength, at::kLong) * (first % 7 + 1)).remainder(kIds);
    auto labels = ids.clone();
    labels.masked_fill_((first % 3 == 0) & (at::arange(kLength, at::kLong) < kLength / 2), -100);
    return nn::Bundle{{"input_ids", ids}, {"labels", labels}};
  });
}

}  // namespace convoy::train
