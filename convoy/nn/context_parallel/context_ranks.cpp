#include "convoy/nn/context_parallel/context_ranks.h"

#include <ATen/ATen.h>

namespace convoy::nn {

std::array<PositionRange, 2> ContextRanks::stretches(int rank) const {
  if (!shares()) return {PositionRange{0, length_}, PositionRange{length_, 0}};
  PositionRange first, last{length_, 0};
  for (int64_t r = 0; r <= rank; ++r) {
    const int64_t size = length_ * (r + 1) / group_.size() - length_ * r / group_.size();
    first = {first.begin + first.length, (size + 1) / 2};
    last = {last.begin - size / 2, size / 2};
  }
  return {first, last};
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
