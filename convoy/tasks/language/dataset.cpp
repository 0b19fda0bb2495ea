#include "convoy/tasks/language/dataset.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/random.h"

namespace convoy::tasks {

namespace {

/// Writes for each token of the block that begins at `begin` the number of its text, and its
/// position from the text's first token in the block.
void keep_apart(const std::vector<int64_t>& ends, int64_t begin, int64_t length, int64_t* document,
                int64_t* position) {
  auto end = std::upper_bound(ends.begin(), ends.end(), begin);
  int64_t number = 0, first = begin;
  for (int64_t at = begin; at < begin + length; ++at) {
    if (end != ends.end() && at == *end) {
      end = std::upper_bound(end, ends.end(), at);
      ++number;
      first = at;
    }
    *document++ = number;
    *position++ = at - first;
  }
}

void check_ids(const int64_t* ids, int64_t count, const TokenBlocks& part) {
  if (part.num_ids == 0) return;
  const auto* wrong =
      std::find_if(ids, ids + count, [&](int64_t id) { return id < 0 || id >= part.num_ids; });
  if (wrong != ids + count) refuse_token(part.file, *wrong, part.num_ids);
}

}  // namespace

void refuse_token(const std::string& file, int64_t id, int64_t num_ids) {
  fail<UsageError>("data", "{} holds the token {}, but the model's vocab_size is {}", file, id,
                   num_ids);
}

std::shared_ptr<dataset::Dataset> make_block_dataset(std::vector<TokenBlocks> parts,
                                                     int64_t block_size,
                                                     std::optional<data::Mixture> mixture) {
  std::vector<int64_t> ends{0};  // of each part's rows
  std::vector<data::TokenView> ids;
  for (const auto& part : parts) {
    ends.push_back(ends.back() + std::ssize(part.begins));
    ids.push_back(part.ids->view());
  }
  const int64_t num_rows = ends.back();
  const auto batch = [ends = std::move(ends), ids = std::move(ids), parts = std::move(parts),
                      block_size](const std::vector<int64_t>& rows) {
    auto all = at::empty({static_cast<int64_t>(rows.size()), block_size}, at::kLong);
    auto* out = all.data_ptr<int64_t>();
    nn::Bundle bundle{{"input_ids", all}};
    int64_t *document = nullptr, *position = nullptr;
    if (parts.at(0).ends) {
      document = (bundle["documents"] = at::empty_like(all)).data_ptr<int64_t>();
      position = (bundle["positions"] = at::empty_like(all)).data_ptr<int64_t>();
    }
    for (const int64_t row : rows) {
      const auto next = std::upper_bound(ends.begin(), ends.end(), row);
      const auto part = static_cast<size_t>(next - ends.begin()) - 1;
      const auto begin = parts[part].begins[static_cast<size_t>(row - ends[part])];
      out = ids[part].copy(begin, block_size, out);
      check_ids(out - block_size, block_size, parts[part]);
      if (document == nullptr) continue;
      keep_apart(*parts[part].ends, begin, block_size, document, position);
      document += block_size;
      position += block_size;
    }
    return bundle;
  };
  return mixture ? dataset::make_mixed_dataset(std::move(*mixture), batch)
                 : dataset::make_map_dataset(num_rows, batch);
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
