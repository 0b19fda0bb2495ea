#pragma once

#include "tests/models/testing.h"
#include "tests/train/testing.h"

namespace convoy::train {

inline constexpr int64_t kIds = 70, kLength = 16;

inline nn::BlockList small_gpt2() {
  return models::small_gpt2({.ids = kIds, .width = 24, .heads = 3, .length = kLength})
      .make_blocks();
}

inline nn::BlockList small_llama() {
  return models::small_llama({.ids = kIds, .width = 24, .heads = 6, .length = kLength})
      .make_blocks();
}

/// Spans of its texts are hidden.
inline nn::BlockList small_t5() {
  auto config = models::small_t5({.ids = kIds, .width = 24, .heads = 3});
  config.relative_attention_num_buckets = 8;
  config.relative_attention_max_distance = 12;
  config.feed_forward_proj = "gated-gelu";
  for (int64_t id = kIds - 1; id > kIds - 6; --id) config.corruption.sentinel_ids.push_back(id);
  return config.make_blocks();
}

/// Half of the tokens of its texts are hidden.
inline nn::BlockList small_bert() {
  auto config = models::small_bert({.ids = kIds, .width = 24, .heads = 3, .length = kLength});
  config.masking.probability = 0.5;
  return config.make_blocks();
}

/// The same rows with nothing but their ids.
inline std::shared_ptr<dataset::Dataset> plain_texts() {
  return dataset::make_map_dataset(61, [](const std::vector<int64_t>& rows) {
    auto first = at::tensor(rows, at::kLong).unsqueeze(1);
    return nn::Bundle{
        {"input_ids",
         (first * 5 + at::arange(kLength, at::kLong) * (first % 7 + 1)).remainder(kIds - 10)}};
  });
}

/// Rows that follow a rule; labels of every third row's first half are ignored.
inline std::shared_ptr<dataset::Dataset> texts() {
  return dataset::make_map_dataset(61, [](const std::vector<int64_t>& rows) {
    auto first = at::tensor(rows, at::kLong).unsqueeze(1);
    auto ids = (first * 5 + at::arange(kLength, at::kLong) * (first % 7 + 1)).remainder(kIds);
    auto labels = ids.clone();
    labels.masked_fill_((first % 3 == 0) & (at::arange(kLength, at::kLong) < kLength / 2), -100);
    return nn::Bundle{{"input_ids", ids}, {"labels", labels}};
  });
}

}  // namespace convoy::train
