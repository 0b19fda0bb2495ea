// Shapes: N rows of x, C columns of all products together.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>

#include "convoy/nn/layers/layers.h"
#include "convoy/nn/layers/lora.h"
#include "convoy/nn/node.h"
#include "convoy/nn/product.h"
#include "convoy/nn/side_by_side.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

namespace {

/// Dimensions: the first of parameters, and the last of rows.
constexpr int64_t kFirst = 0, kColumns = 1;

/// Weights [columns, in] whose memory is one matrix, and their biases, if any.
class Together {
 public:
  static std::optional<Together> of(const Operand& x, const std::vector<DenseParams>& all,
                                    const TensorRanks& ranks) {
    if (!x.value.is_cuda() || ranks.group().size() > 1) return std::nullopt;
    Together out;
    out.ranks_ = ranks;
    out.trains_ = all.front().weight->spec().trainable;
    for (const auto& [weight, bias] : all) {
      const bool alike = weight->spec().trainable == out.trains_ &&
                         (!bias || bias->spec().trainable == out.trains_);
      if (!alike || weight->shape().size() != 2) return std::nullopt;
      out.weights_.push_back(weight);
      if (bias) out.biases_.push_back(bias);
    }
    const bool uneven = !out.biases_.empty() && out.biases_.size() != all.size();
    if (uneven || !out.matrix().defined()) return std::nullopt;
    return out;
  }

  std::vector<at::Tensor> forward(const Operand& x) {
    const auto w = matrix();
    shape_ = x.value.sizes().vec();
    dtype_ = x.edge.scalar_type();
    wants_grad_ = x.edge.requires_grad();
    input_ = x.value.detach().reshape({-1, w.size(1)}).to(w.scalar_type());
    const auto flat = biases_.empty()
                          ? at::mm(input_, w.t())
                          : at::addmm(joined(values_of(biases_), kFirst), input_, w.t());
    widths_ = lengths_of(values_of(weights_), kFirst);
    like_ = flat.options();
    rows_ = flat.size(0);
    std::vector<at::Tensor> out;
    for (const auto& part : flat.split_with_sizes(widths_, kColumns)) {
      adapters_.emplace_back(weights_[out.size()], x.value, ranks_);
      adapters_.back().add_to(part, input_);
      auto sizes = shape_;
      sizes.back() = part.size(kColumns);
      out.push_back(part.view(sizes));
    }
    if (!trains_ && !is_adapted()) input_.reset();
    return out;
  }

  /// Whether backward has anything to compute.
  bool learns() const { return trains_ || wants_grad_ || is_adapted(); }

  at::Tensor backward(const std::vector<at::Tensor>& grads) const {
    std::vector<at::Tensor> parts;
    for (size_t i = 0; i < grads.size(); ++i) {
      parts.push_back(grads[i].defined() ? grads[i].reshape({rows_, widths_[i]})
                                         : at::zeros({rows_, widths_[i]}, like_));
    }
    const auto g = joined(parts, kColumns);
    at::Tensor more;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!adapters_[i]) continue;
      const auto read = [input = input_] { return input; };
      const auto own = adapters_[i].backward(parts[i], {parts[i], {}}, read, wants_grad_);
      more = more.defined() && own.defined() ? more.add_(own) : own;
    }
    if (trains_) add_weight_grads(g);
    if (!wants_grad_) return {};
    auto back = at::mm(g, matrix());
    if (more.defined()) back.add_(more);
    return back.view(shape_).to(dtype_);
  }

 private:
  at::Tensor matrix() const { return side_by_side(values_of(weights_), kFirst); }

  bool is_adapted() const {
    return std::any_of(adapters_.begin(), adapters_.end(), [](const auto& one) { return !!one; });
  }

  void add_weight_grads(const at::Tensor& g) const {
    add_grads(weights_, product_dtype(g), [g, read = input_](at::Tensor& to, bool adds) {
      product_into(to, g.t(), read, adds);
    });
    if (!biases_.empty()) {
      add_grads(biases_, at::kFloat,
                [g](at::Tensor& to, bool adds) { sum_rows_into(to, g, adds); });
    }
  }

  std::vector<ParamPtr> weights_, biases_;
  TensorRanks ranks_;
  at::Tensor input_;  // [N, in]; undefined where no gradient reads it
  at::TensorOptions like_;
  int64_t rows_ = 0;  // N
  std::vector<int64_t> shape_, widths_;
  at::ScalarType dtype_ = at::kFloat;
  bool wants_grad_ = false, trains_ = true;
  std::vector<LoraProduct> adapters_;  // by weight
};

}  // namespace

std::vector<at::Tensor> linears(const Operand& x, const std::vector<DenseParams>& all,
                                const TensorRanks& ranks, SumOrder grads) {
  if (auto together = Together::of(x, all, ranks)) {
    const auto out = without_grad([&] { return together->forward(x); });
    if (!together->learns()) return out;
    return with_backward_of_all(out, {x.edge},
                                [state = *together](const std::vector<at::Tensor>& of_out) {
                                  return std::vector{state.backward(of_out)};
                                });
  }
  // Casts the input once to the dtype of the products, for all layers to keep.
  auto read = x;
  if (!x.gathered) read.value = x.value.detach().to(all.front().weight->value().scalar_type());
  std::vector<at::Tensor> out(all.size());
  // Backward begins with what was computed last.
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t at = grads == SumOrder::LastToFirst ? i : all.size() - 1 - i;
    out[at] = linear(read, all[at], ranks);
  }
  return out;
}

}  // namespace convoy::nn
