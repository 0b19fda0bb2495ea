#include "convoy/nn/layers/norms_of_columns.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/nn/layers/layers.h"
#include "convoy/nn/node.h"

// Shapes: N rows, C columns of this rank, W columns of all ranks.
namespace convoy::nn {

namespace {

/// Factors [C]: 1 for the columns of this rank that no rank before it holds, else 0; undefined
/// where all are 1.
at::Tensor owned_columns(const ParamPtr& weight, const TensorRanks& ranks) {
  const auto& spec = weight->spec();
  const auto& group = ranks.group();
  if (!parallel::overlaps(spec.shape, spec.cut, group.size())) return {};
  auto out = at::zeros({weight->value().numel()}, at::kFloat);
  for (const auto& box : parallel::boxes(spec.shape, spec.cut, {group.rank(), group.size()})) {
    if (box.owned) out.narrow(0, box.local_begin[0], box.size[0]).fill_(1);
  }
  return out.to(weight->value().device());
}

at::Tensor only_owned(const at::Tensor& x, const at::Tensor& owned) {
  return owned.defined() ? x * owned : x;
}

/// RMS norm of one tensor's columns, in fp32.
struct Norm {
  ParamPtr weight;
  at::Tensor input, owned;  // [N, C], [C]
  at::Tensor scale;         // [N, 1]: one over the root of the mean square
  double width = 0;         // W

  at::Tensor factors() const { return weight->value().to(at::kFloat); }
  at::Tensor squares() const { return only_owned(input.square(), owned).sum(1); }
  at::Tensor normed() const { return input * scale; }
};

class Norms {
 public:
  Norms(const std::vector<at::Tensor>& x, const std::vector<ParamPtr>& weights,
        const TensorRanks& ranks)
      : group_(ranks.group()) {
    for (size_t i = 0; i < x.size(); ++i) {
      auto rows = x[i].detach().reshape({-1, x[i].size(-1)}).to(at::kFloat);
      norms_.push_back({weights[i],
                        std::move(rows),
                        owned_columns(weights[i], ranks),
                        {},
                        static_cast<double>(weights[i]->spec().shape[0])});
      sizes_.push_back(x[i].sizes().vec());
      dtypes_.push_back(x[i].scalar_type());
    }
  }

  std::vector<at::Tensor> forward(double epsilon) {
    std::vector<at::Tensor> squares, out;
    for (const auto& norm : norms_) squares.push_back(norm.squares());
    const auto sums = summed(squares, "squares");
    for (size_t i = 0; i < norms_.size(); ++i) {
      auto& norm = norms_[i];
      norm.scale = (sums[static_cast<int64_t>(i)] / norm.width + epsilon).rsqrt_().unsqueeze(1);
      out.push_back((norm.normed() * norm.factors()).view(sizes_[i]));
    }
    return out;
  }

  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& grads) const {
    std::vector<at::Tensor> scaled, along, out;
    for (size_t i = 0; i < norms_.size(); ++i) {
      const auto& norm = norms_[i];
      const auto g = grads[i].defined() ? grads[i].reshape_as(norm.input).to(at::kFloat)
                                        : at::zeros_like(norm.input);
      const auto normed = norm.normed();
      norm.weight->add_grad(
          with_overlaps((g * normed).sum(0, /*keepdim=*/true), norm.weight, group_).view(-1));
      scaled.push_back(g * norm.factors());
      along.push_back((scaled.back() * normed).sum(1));
    }
    const auto sums = summed(along, "gradients along");
    for (size_t i = 0; i < norms_.size(); ++i) {
      const auto& norm = norms_[i];
      const auto mean = (sums[static_cast<int64_t>(i)] / norm.width).unsqueeze(1);
      const auto back = (scaled[i] - only_owned(norm.normed(), norm.owned) * mean) * norm.scale;
      out.push_back(back.view(sizes_[i]).to(dtypes_[i]));
    }
    return out;
  }

 private:
  /// Sums over the ranks, [norms, N].
  at::Tensor summed(const std::vector<at::Tensor>& parts, const char* what) const {
    auto all = at::stack(parts);
    group_.all_reduce(all, comm::ReduceOp::Sum, label_of(what, norms_.front().weight));
    return all;
  }

  comm::Group group_;
  std::vector<Norm> norms_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<at::ScalarType> dtypes_;
};

}  // namespace

std::vector<at::Tensor> rms_norms_of_columns(const std::vector<at::Tensor>& x,
                                             const std::vector<ParamPtr>& weights, double epsilon,
                                             const TensorRanks& ranks) {
  const bool cut = std::any_of(weights.begin(), weights.end(),
                               [&](const auto& weight) { return is_cut(weight, ranks.group()); });
  if (!cut) {
    std::vector<at::Tensor> out;
    for (size_t i = 0; i < x.size(); ++i) {
      out.push_back(rms_norm(x[i], weights[i], epsilon, ReadBy::Products));
    }
    return out;
  }
  Norms norms(x, weights, ranks);
  const auto out = without_grad([&] { return norms.forward(epsilon); });
  return with_backward_of_all(
      out, x, [norms](const std::vector<at::Tensor>& grads) { return norms.backward(grads); });
}

}  // namespace convoy::nn
