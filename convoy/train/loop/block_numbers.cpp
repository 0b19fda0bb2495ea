#include "convoy/train/loop/block_numbers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"

namespace convoy::train {

namespace {

/// Index of the first row that is not all finite, where the first dimension is rows.
int64_t first_row(const at::Tensor& finite) {
  const auto rows = finite.reshape({finite.size(0), -1}).all(1);
  for (int64_t row = 0; row < rows.numel(); ++row) {
    if (!comm::item<bool>(rows[row])) return row;
  }
  return -1;
}

}  // namespace

double BlockNumbers::norm() const {
  return std::sqrt(squares);
}

void BlockRecorder::output(int64_t block, int64_t micro_batch, const at::Tensor& samples,
                           const nn::Bundle& out) {
  add(/*is_gradient=*/false, block, micro_batch, samples, out);
}

void BlockRecorder::gradient(int64_t block, int64_t micro_batch, const at::Tensor& samples,
                             const nn::Bundle& gradients) {
  add(/*is_gradient=*/true, block, micro_batch, samples, gradients);
}

const BlockNumbers* BlockRecorder::first_not_finite() const {
  return first_not_finite_ < 0 ? nullptr : &numbers_[static_cast<size_t>(first_not_finite_)];
}

void BlockRecorder::add(bool is_gradient, int64_t block, int64_t micro_batch,
                        const at::Tensor& samples, const nn::Bundle& bundle) {
  const at::NoGradGuard no_grad;
  auto found = std::find_if(numbers_.begin(), numbers_.end(), [&](const BlockNumbers& one) {
    return one.block == block && one.is_gradient == is_gradient;
  });
  if (found == numbers_.end()) {
    found = numbers_.insert(numbers_.end(), {.block = block, .is_gradient = is_gradient});
  }
  for (const auto& [name, tensor] : bundle) {
    if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0) continue;
    const auto values = comm::download(tensor.detach()).to(at::kDouble);
    const auto finite = at::isfinite(values);
    const auto kept = values.masked_select(finite);  // on the host
    const int64_t bad = values.numel() - kept.numel();
    if (kept.numel() > 0) {
      found->squares += comm::item<double>(kept.square().sum());
      found->largest = std::max(found->largest, comm::item<double>(kept.abs().max()));
    }
    found->not_finite += bad;
    if (bad == 0 || found->micro_batch >= 0) continue;
    found->micro_batch = micro_batch;
    const bool has_rows = values.dim() > 0 && values.size(0) == samples.numel();
    if (has_rows) found->sample = comm::item<int64_t>(samples[first_row(finite)]);
    if (first_not_finite_ < 0) first_not_finite_ = found - numbers_.begin();
  }
}

}  // namespace convoy::train
