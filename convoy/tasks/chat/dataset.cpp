#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "convoy/data/best_fit.h"
#include "convoy/models/language_model.h"
#include "convoy/tasks/chat/chat_data.h"

// Conversations as batches. Padding stands behind them, where no position sees it: causal models
// need no mask.
namespace convoy::tasks {

namespace {

/// A row of a batch as it is filled.
struct RowCursor {
  int64_t *id, *label, *document, *position;  // the last two null: a row is one conversation
};

/// Appends a conversation to a row as its document `number`.
void append(const ChatRows& all, int64_t conversation, int64_t number, RowCursor& to) {
  const int64_t begin = all.begin(conversation), end = all.end(conversation);
  for (int64_t at = begin; at < end; ++at) {
    *to.id = all.ids[static_cast<size_t>(at)];
    if (all.is_target[static_cast<size_t>(at)]) *to.label = *to.id;
    ++to.id;
    ++to.label;
    if (to.document == nullptr) continue;
    *to.document++ = number;
    *to.position++ = at - begin;
  }
}

}  // namespace

RowsOfConversations rows_of_conversations(const ChatRows& all, const ChatRange& range,
                                          std::optional<int64_t> capacity) {
  const auto [first, last] = range;
  RowsOfConversations rows;
  if (!capacity) {
    for (int64_t row = first; row < last; ++row) rows.push_back({row});
    return rows;
  }
  std::vector<int64_t> lengths;
  for (int64_t row = first; row < last; ++row) lengths.push_back(all.length(row));
  rows = data::best_fit(lengths, *capacity);
  for (auto& row : rows) {
    for (auto& conversation : row) conversation += first;
  }
  return rows;
}

std::shared_ptr<dataset::Dataset> make_chat_dataset(std::shared_ptr<const ChatRows> all,
                                                    RowsOfConversations rows, bool packed,
                                                    const ChatPadding& padding,
                                                    std::optional<data::Mixture> mixture,
                                                    const DerivedColumns& derived) {
  std::vector<int64_t> lengths;
  for (const auto& row : rows) {
    lengths.push_back(std::accumulate(
        row.begin(), row.end(), int64_t{0},
        [&](int64_t sum, int64_t conversation) { return sum + all->length(conversation); }));
  }
  const auto num_rows = std::ssize(rows);
  const auto batch = [=, all = std::move(all),
                      rows = std::move(rows)](const std::vector<int64_t>& wanted) {
    int64_t longest = padding.least;
    for (const int64_t row : wanted) {
      longest = std::max(longest, lengths[static_cast<size_t>(row)]);
    }
    longest = (longest + padding.multiple - 1) / padding.multiple * padding.multiple;
    const auto B = std::ssize(wanted);
    nn::Bundle out;
    const auto ids = out["input_ids"] = at::full({B, longest}, padding.id, at::kLong);
    const auto labels = out["labels"] = at::full_like(ids, models::kIgnored);
    at::Tensor documents, positions;
    if (packed) {
      documents = out["documents"] = at::full_like(ids, -1);
      positions = out["positions"] = at::zeros_like(ids);
    }
    for (int64_t i = 0; i < B; ++i) {
      const auto row_of = [&](const at::Tensor& x) {
        return x.defined() ? x.data_ptr<int64_t>() + i * longest : nullptr;
      };
      RowCursor to{row_of(ids), row_of(labels), row_of(documents), row_of(positions)};
      int64_t number = 0;
      for (const int64_t conversation : rows[static_cast<size_t>(wanted[static_cast<size_t>(i)])]) {
        append(*all, conversation, number++, to);
      }
    }
    if (derived.add) derived.add(wanted, out);
    return out;
  };
  return mixture ? dataset::make_mixed_dataset(std::move(*mixture), batch, lengths, derived.names)
                 : dataset::make_map_dataset(num_rows, batch, lengths, derived.names);
}

}  // namespace convoy::tasks
