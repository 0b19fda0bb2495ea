#include "convoy/tasks/session/baselines/item_knn.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace convoy::tasks {

namespace {

struct Neighbour {
  int32_t item;
  float cosine;
};

class ItemKnn : public ItemWeights {
 public:
  /// Takes for each item its neighbours, by which it is scored.
  explicit ItemKnn(const std::vector<std::vector<Neighbour>>& of) : ends_(of.size(), 0) {
    for (const auto& list : of) {
      for (const auto& [from, cosine] : list) ++ends_[static_cast<size_t>(from)];
    }
    int64_t sum = 0;
    std::vector<int64_t> next;
    for (int64_t& end : ends_) {
      next.push_back(sum);
      end = sum += end;
    }
    weights_.resize(static_cast<size_t>(sum));
    for (size_t item = 0; item < of.size(); ++item) {
      for (const auto& [from, cosine] : of[item]) {
        const auto at = next[static_cast<size_t>(from)]++;
        weights_[static_cast<size_t>(at)] = {static_cast<int32_t>(item), cosine};
      }
    }
  }

  void add(int64_t item, std::span<float> scores) const override {
    const auto at = static_cast<size_t>(item);
    for (int64_t i = at == 0 ? 0 : ends_[at - 1]; i < ends_[at]; ++i) {
      const auto& [to, cosine] = weights_[static_cast<size_t>(i)];
      scores[static_cast<size_t>(to)] += cosine;
    }
  }

 private:
  std::vector<int64_t> ends_;       // of each item's weights
  std::vector<Neighbour> weights_;  // from each item, one item after the other
};

}  // namespace

std::unique_ptr<ItemWeights> fit_item_knn(const Interactions& interactions, int64_t neighbours) {
  const auto persons_of = interactions.transposed();
  const int64_t num = interactions.num_columns;
  std::vector<std::vector<Neighbour>> of(static_cast<size_t>(num));
  at::parallel_for(0, num, 64, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> together(static_cast<size_t>(num), 0);  // persons who have both
    std::vector<int32_t> touched;
    for (int64_t item = begin; item < end; ++item) {
      const auto persons = persons_of.row(item);
      for (const int32_t person : persons) {
        for (const int32_t other : interactions.row(person)) {
          if (other != item && together[static_cast<size_t>(other)]++ == 0) {
            touched.push_back(other);
          }
        }
      }
      auto& list = of[static_cast<size_t>(item)];
      for (const int32_t other : touched) {
        const auto both = static_cast<double>(together[static_cast<size_t>(other)]);
        const auto sizes = static_cast<double>(std::ssize(persons)) *
                           static_cast<double>(std::ssize(persons_of.row(other)));
        list.push_back({other, static_cast<float>(both / std::sqrt(sizes))});
        together[static_cast<size_t>(other)] = 0;
      }
      touched.clear();
      const auto most = std::min(neighbours, std::ssize(list));
      std::partial_sort(list.begin(), list.begin() + most, list.end(),
                        [](const Neighbour& a, const Neighbour& b) {
                          return a.cosine != b.cosine ? a.cosine > b.cosine : a.item < b.item;
                        });
      list.resize(static_cast<size_t>(most));
      list.shrink_to_fit();
    }
  });
  return std::make_unique<ItemKnn>(of);
}

}  // namespace convoy::tasks
