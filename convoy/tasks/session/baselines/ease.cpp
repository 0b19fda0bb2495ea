#include "convoy/tasks/session/baselines/ease.h"

#include <ATen/ATen.h>

#include "convoy/base/error.h"
#include "convoy/comm/to_host.h"

namespace convoy::tasks {

namespace {

class Ease : public ItemWeights {
 public:
  explicit Ease(at::Tensor weights) : weights_(std::move(weights)) {}

  void add(int64_t item, std::span<float> scores) const override {
    const auto* row = weights_.const_data_ptr<float>() + item * std::ssize(scores);
    for (size_t to = 0; to < scores.size(); ++to) scores[to] += row[to];
  }

 private:
  at::Tensor weights_;  // [items, items], from row to column
};

/// Gram matrix X'X: number of persons who have both items.
at::Tensor gram(const Interactions& interactions) {
  const int64_t num = interactions.num_columns;
  auto out = at::zeros({num, num}, at::kDouble);
  auto* counts = out.data_ptr<double>();
  for (int64_t person = 0; person < interactions.num_rows(); ++person) {
    const auto items = interactions.row(person);
    for (const int32_t i : items) {
      for (const int32_t j : items) counts[i * num + j] += 1;
    }
  }
  return out;
}

}  // namespace

std::unique_ptr<ItemWeights> fit_ease(const Interactions& interactions, double regularization) {
  auto matrix = gram(interactions);
  matrix.diagonal().add_(regularization);
  auto [factor, info] = at::linalg_cholesky_ex(matrix);
  internal_check(comm::item<int32_t>(info) == 0, "tasks", "a gram matrix is not positive definite");
  matrix.reset();
  auto inverse = at::cholesky_inverse(factor);
  factor.reset();
  inverse.div_(-inverse.diagonal().clone());
  inverse.diagonal().zero_();
  return std::make_unique<Ease>(inverse.to(at::kFloat).contiguous());
}

}  // namespace convoy::tasks
