#include "convoy/nn/context_ranks.h"

#include <ATen/ATen.h>

namespace convoy::nn {

std::array<Stretch, 2> ContextRanks::stretches(int rank) const {
  if (!shares()) return {Stretch{0, length_}, Stretch{length_, 0}};
  const int64_t number = 2 * int64_t{group_.size()};
  const auto stretch = [&](int64_t i) {
    const int64_t begin = length_ * i / number;
    return Stretch{begin, length_ * (i + 1) / number - begin};
  };
  return {stretch(rank), stretch(number - 1 - rank)};
}

int64_t ContextRanks::size(int rank) const {
  const auto [first, second] = stretches(rank);
  return first.length + second.length;
}

at::Tensor ContextRanks::positions(at::Device device) const {
  return own(at::arange(length_, at::TensorOptions(at::kLong).device(device)), 0);
}

at::Tensor ContextRanks::own(const at::Tensor& all, int64_t dim) const {
  if (!shares()) return all;
  const auto [first, second] = stretches();
  return at::cat(
      {all.narrow(dim, first.begin, first.length), all.narrow(dim, second.begin, second.length)},
      dim);
}

}  // namespace convoy::nn
