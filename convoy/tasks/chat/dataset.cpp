#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/models/language_model.h"
#include "convoy/tasks/chat/chat_data.h"

// Conversations as batches. Padding stands behind them, where no position sees it: causal models
// need no mask.
namespace convoy::tasks {

std::shared_ptr<train::Dataset> make_chat_dataset(std::shared_ptr<const ChatRows> rows,
                                                  int64_t first, int64_t last, int64_t multiple,
                                                  int64_t least, int64_t padding_id) {
  std::vector<int64_t> lengths;
  for (int64_t row = first; row < last; ++row) lengths.push_back(rows->end(row) - rows->begin(row));
  const auto batch = [=, all = std::move(rows)](const std::vector<int64_t>& wanted) {
    int64_t longest = least;
    for (const int64_t row : wanted) {
      longest = std::max(longest, all->end(first + row) - all->begin(first + row));
    }
    longest = (longest + multiple - 1) / multiple * multiple;
    const auto B = std::ssize(wanted);
    auto ids = at::full({B, longest}, padding_id, at::kLong);
    auto labels = at::full_like(ids, models::kIgnored);
    for (int64_t i = 0; i < B; ++i) {
      const int64_t row = first + wanted[static_cast<size_t>(i)];
      auto* id = ids.data_ptr<int64_t>() + i * longest;
      auto* label = labels.data_ptr<int64_t>() + i * longest;
      for (int64_t at = all->begin(row); at < all->end(row); ++at, ++id, ++label) {
        *id = all->ids[static_cast<size_t>(at)];
        if (all->is_target[static_cast<size_t>(at)]) *label = *id;
      }
    }
    return nn::Bundle{{"input_ids", ids}, {"labels", labels}};
  };
  const auto num_rows = last - first;
  return train::make_map_dataset(num_rows, batch, std::move(lengths));
}

}  // namespace convoy::tasks
