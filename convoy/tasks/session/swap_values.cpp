#include "convoy/tasks/session/swap_values.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/random.h"
#include "convoy/data/padding.h"
#include "convoy/data/tools/inspect_rows.h"

namespace convoy::tasks {

namespace {

constexpr int64_t kMost = 65536;

/// A uniform sample of a stream (Li, "Reservoir-sampling algorithms of time complexity O(n(1 +
/// log(N/n)))", 1994).
template <class T>
class Reservoir {
 public:
  explicit Reservoir(uint64_t key) : key_(key) { skip(); }

  void add(const std::vector<T>& values) {
    const auto count = static_cast<int64_t>(values.size());
    int64_t at = std::min(count, kMost - static_cast<int64_t>(kept_.size()));
    kept_.insert(kept_.end(), values.begin(), values.begin() + at);
    while (at + skipped_ < count) {
      at += skipped_;
      const auto place = static_cast<size_t>(draw() * static_cast<double>(kMost));
      kept_[place] = values[static_cast<size_t>(at++)];
      skip();
    }
    skipped_ -= count - at;
  }

  const std::vector<T>& kept() const { return kept_; }

 private:
  double draw() { return uniform01(key_, counter_++); }
  /// Draws how many of the following values are skipped before the next one is taken.
  void skip() {
    weight_ *= std::exp(std::log(1 - draw()) / static_cast<double>(kMost));
    skipped_ = static_cast<int64_t>(std::log(1 - draw()) / std::log1p(-weight_));
  }

  uint64_t key_, counter_ = 0;
  double weight_ = 1;
  int64_t skipped_ = 0;
  std::vector<T> kept_;
};

/// Values of the rows, without those behind the first `lengths` of each list.
template <class T>
std::vector<T> first_values(const std::vector<T>& values, const data::Column& column,
                            const std::vector<int64_t>& lengths) {
  std::vector<T> out;
  for (size_t row = 0; row < lengths.size(); ++row) {
    const auto begin = values.begin() + column.begin(static_cast<int64_t>(row));
    out.insert(out.end(), begin, begin + lengths[row]);
  }
  return out;
}

}  // namespace

std::map<std::string, at::Tensor> draw_swap_values(
    const data::ParquetFiles& data, const data::Selection& selection,
    const std::vector<models::SessionFeature>& features, int64_t seed,
    const std::string& item_column) {
  std::map<std::string, Reservoir<int64_t>> ids;
  std::map<std::string, Reservoir<float>> numbers;
  data::each_rows(data, selection, [&](const data::Rows& rows) {
    const auto& items = rows.columns.at(item_column);
    std::vector<int64_t> lengths;
    bool padded = false;
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      lengths.push_back(data::unpadded_length(items, row));
      padded = padded || lengths.back() < items.end(row) - items.begin(row);
    }
    for (const auto& feature : features) {
      const auto& column = rows.columns.at(feature.name);
      const bool cut = padded && column.is_list;
      const uint64_t key =
          hash_combine(mix64(static_cast<uint64_t>(seed)), hash_text(feature.name));
      if (column.kind == data::Column::Int64) {
        ids.try_emplace(feature.name, key)
            .first->second.add(cut ? first_values(column.ints, column, lengths) : column.ints);
      } else {
        numbers.try_emplace(feature.name, key)
            .first->second.add(cut ? first_values(column.floats, column, lengths) : column.floats);
      }
    }
  });
  std::map<std::string, at::Tensor> out;
  for (const auto& feature : features) {
    const auto dtype = feature.categorical ? at::kLong : at::kFloat;
    const auto found = ids.find(feature.name);
    const auto values = found != ids.end()
                            ? at::tensor(found->second.kept(), at::kLong)
                            : at::tensor(numbers.at(feature.name).kept(), at::kFloat);
    out[feature.name] = values.to(dtype);
  }
  return out;
}

}  // namespace convoy::tasks
