#include "convoy/nn/side_by_side.h"

#include <ATen/ATen.h>

#include "convoy/nn/node.h"

namespace convoy::nn {

at::Tensor side_by_side(const std::vector<at::Tensor>& parts, int64_t dim) {
  const auto& first = parts.front();
  auto sizes = first.sizes().vec();
  const auto d = static_cast<size_t>(dim);
  int64_t end = first.storage_offset() + first.size(dim) * first.stride(dim);
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto& part = parts[i];
    auto alike = part.sizes().vec();
    alike[d] = first.size(dim);
    if (part.dim() != first.dim() || alike != first.sizes() || part.strides() != first.strides() ||
        part.scalar_type() != first.scalar_type() || !part.is_alias_of(first) ||
        part.storage_offset() != end) {
      return {};
    }
    end += part.size(dim) * part.stride(dim);
    sizes[d] += part.size(dim);
  }
  return without_grad(
      [&] { return first.detach().as_strided(sizes, first.strides(), first.storage_offset()); });
}

at::Tensor joined(const std::vector<at::Tensor>& parts, int64_t dim) {
  const auto view = side_by_side(parts, dim);
  return view.defined() ? view : at::cat(parts, dim);
}

std::vector<at::Tensor> values_of(const std::vector<ParamPtr>& params) {
  std::vector<at::Tensor> out;
  for (const auto& param : params) out.push_back(param->value());
  return out;
}

std::vector<int64_t> lengths_of(const std::vector<at::Tensor>& parts, int64_t dim) {
  std::vector<int64_t> out;
  for (const auto& part : parts) out.push_back(part.size(dim));
  return out;
}

}  // namespace convoy::nn
