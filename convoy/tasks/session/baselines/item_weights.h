#pragma once

#include <cstdint>
#include <span>

namespace convoy::tasks {

/// Linear recommender: a weight from each item that a person had to each item that may follow.
class ItemWeights {
 public:
  virtual ~ItemWeights() = default;

  /// Adds the weights from `item` to the scores of all items, by id.
  virtual void add(int64_t item, std::span<float> scores) const = 0;
};

}  // namespace convoy::tasks
