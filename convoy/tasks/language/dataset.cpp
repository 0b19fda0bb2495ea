#include "convoy/tasks/language/dataset.h"

#include <ATen/ATen.h>

#include "convoy/base/random.h"

namespace convoy::tasks {

std::shared_ptr<train::Dataset> make_block_dataset(std::shared_ptr<data::TokenStore> ids,
                                                   std::vector<int64_t> blocks,
                                                   int64_t block_size) {
  const auto num_rows = static_cast<int64_t>(blocks.size());
  const auto all = ids->ids();
  return train::make_map_dataset(num_rows, [all, held = std::move(ids), blocks = std::move(blocks),
                                            block_size](const std::vector<int64_t>& rows) {
    auto batch = at::empty({static_cast<int64_t>(rows.size()), block_size}, at::kLong);
    auto* out = batch.data_ptr<int64_t>();
    for (const int64_t row : rows) {
      out = std::copy_n(all.data() + blocks[static_cast<size_t>(row)], block_size, out);
    }
    return nn::Bundle{{"input_ids", batch}};
  });
}

data::TokenTexts random_texts(int64_t count, int64_t vocab_size, uint64_t seed) {
  data::TokenTexts out;
  out.vocab_size = static_cast<int32_t>(vocab_size);
  constexpr int64_t kAtOnce = 1 << 16;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    const auto draw = mix64(hash_combine(seed, static_cast<uint64_t>(i)));
    ids.push_back(static_cast<int32_t>(draw % static_cast<uint64_t>(vocab_size)));
    if (std::ssize(ids) < kAtOnce && i + 1 < count) continue;
    out.ids->append(ids);
    ids.clear();
  }
  out.ends.push_back(count);
  return out;
}

}  // namespace convoy::tasks
