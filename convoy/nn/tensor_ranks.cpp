#include "convoy/nn/tensor_ranks.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/nn/node.h"

namespace convoy::nn {

std::string label_of(const char* what, const ParamPtr& weight) {
  constexpr std::string_view kEnd = ".weight";
  std::string_view name = weight->spec().name;
  if (name.ends_with(kEnd)) name.remove_suffix(kEnd.size());
  return std::string(what).append(" of ").append(name);
}

at::Tensor to_columns(const at::Tensor& x, const ParamPtr& weight, const comm::Group& tensor) {
  if (!is_cut(weight, tensor) || !x.requires_grad()) return x;
  return with_backward(x.detach(), {x}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    auto sum = grad.clone(at::MemoryFormat::Contiguous);
    tensor.all_reduce(sum, comm::ReduceOp::Sum, label_of("gradient of the input", weight));
    return {sum};
  });
}

at::Tensor with_overlaps(const at::Tensor& g, const ParamPtr& weight, const comm::Group& tensor) {
  const auto& spec = weight->spec();
  if (!is_cut(weight, tensor) || !schedule::overlaps(spec.shape, spec.cut, tensor.size())) return g;
  const int64_t columns = spec.shape[static_cast<size_t>(spec.cut.dim)];
  auto all = at::zeros({g.size(0), columns}, g.options());
  auto here = all.narrow(1, weight->begin(), g.size(1));
  here.copy_(g);
  tensor.all_reduce(all, comm::ReduceOp::Sum, label_of("overlaps", weight));
  return here;
}

at::Tensor gather_columns(const at::Tensor& x, const ParamPtr& weight, int64_t dim,
                          const comm::Group& tensor, int64_t first) {
  if (!is_cut(weight, dim, tensor)) return x;
  const auto& spec = weight->spec();
  const auto d = static_cast<size_t>(dim);
  comm::Counts counts;
  for (int rank = 0; rank < tensor.size(); ++rank) {
    const auto box = schedule::boxes(spec.shape, spec.cut, {rank, tensor.size()}).front();
    const int64_t end = box.begin[d] + box.size[d];
    counts.push_back(std::max<int64_t>(0, end - std::max(first, box.begin[d])) * x.size(0));
  }
  const auto mine = x.t().contiguous();
  auto all = at::empty({spec.shape[d] - first, x.size(0)}, x.options());
  tensor.all_gather(all.view({-1}), mine.view({-1}), label_of("columns", weight), counts);
  return all.t().contiguous();
}

}  // namespace convoy::nn
