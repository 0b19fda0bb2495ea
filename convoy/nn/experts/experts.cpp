#include "convoy/nn/experts/experts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "convoy/nn/experts/expert_gates.h"
#include "convoy/nn/experts/grouped_product.h"
#include "convoy/nn/experts/rows_by_expert.h"
#include "convoy/nn/node.h"

// S = N x k rows, in the order of RowsByExpert; R of them are here (ExpertRows).
namespace convoy::nn {

namespace {

/// Operands of the experts' products and what is between them.
struct Matrices {
  std::vector<GroupedProduct> in;  // gate and up: together, or one after the other
  std::vector<GroupedProduct> out;
  ParamPtr in_bias, out_bias;  // null: none
  ExpertGate gate;

  const ParamPtr& first_out() const { return out.front().weights().front(); }
  bool trains() const {
    bool any = out.front().trains() || (in_bias && in_bias->spec().trainable) ||
               (out_bias && out_bias->spec().trainable);
    for (const auto& product : in) any = any || product.trains();
    return any;
  }
};

/// Experts of this rank.
std::vector<ExpertParams> here(const std::vector<ExpertParams>& all, const ExpertRanks& dealt) {
  const auto count = std::ssize(all) / dealt.group.size();
  const auto first = all.begin() + count * dealt.group.rank();
  return {first, first + count};
}

/// Gate and up are together where one call on a GPU takes both; a processor reads the columns of
/// each as rows of memory, so there they are apart.
Matrices matrices_of(const std::vector<ExpertParams>& all, const std::string& activation,
                     bool together) {
  const auto count = std::ssize(all);
  std::vector<ParamPtr> gates, ups, both, downs;
  for (const auto& expert : all) {
    gates.push_back(expert.gate);
    ups.push_back(expert.up);
    both.insert(both.end(), {expert.gate, expert.up});
    downs.push_back(expert.down);
  }
  Matrices out{.gate = {.kind = activation}};
  if (together) {
    out.in.emplace_back(both, count);
  } else {
    out.in.emplace_back(gates, count);
    out.in.emplace_back(ups, count);
  }
  out.out.emplace_back(downs, count);
  return out;
}

Matrices matrices_of(const ExpertStacks& all) {
  const int64_t count = all.down->shape()[0];
  Matrices out{.in_bias = all.gate_up_bias,
               .out_bias = all.down_bias,
               .gate = {.kind = "", .slope = all.slope, .limit = all.limit}};
  out.in.emplace_back(std::vector{all.gate_up}, count);
  out.out.emplace_back(std::vector{all.down}, count);
  return out;
}

/// Adds to each expert's row of `bias` the sum of the gradients of its rows, one group's after the
/// other's.
void add_bias_grads(const ParamPtr& bias, const at::Tensor& rows, const ExpertRows& sent) {
  if (!bias || !bias->spec().trainable) return;
  const auto experts = sent.experts();
  for (const auto& group : sent.groups()) {
    const auto some = [&](const at::Tensor& t) { return t.narrow(0, group.begin, group.size); };
    bias->add_grad(at::zeros(bias->shape(), rows.options().dtype(at::kFloat))
                       .index_add_(0, some(experts), some(rows).to(at::kFloat)));
  }
}

class Experts {
 public:
  Experts(const Operand& x, const Routing& routing, Matrices matrices, const TensorRanks& ranks,
          const ExpertRanks& dealt, const std::string& name)
      : matrices_(std::move(matrices)),
        ranks_(ranks),
        down_(matrices_.first_out()),
        sums_(is_cut(down_, ranks.group())),
        scatters_(sums_ && ranks.shares()),
        gathered_(x.gathered),
        shape_(x.value.sizes().vec()),
        order_(of_all(routing.ids, "experts of tokens"), routing.probs.size(1)),
        sent_(order_, dealt, name),
        weights_(of_all(routing.weights.detach(), "weights of experts")),
        wants_grad_(x.edge.requires_grad() || sent_.travels()),
        wants_weights_(routing.weights.requires_grad() || sent_.travels()),
        dtype_(x.edge.scalar_type()) {}

  bool trains() const { return matrices_.trains(); }
  bool learns() const {
    return at::GradMode::is_enabled() && (wants_grad_ || wants_weights_ || trains());
  }

  at::Tensor forward(const at::Tensor& x, bool learns) {
    input_ = x.detach().reshape({-1, x.size(-1)}).to(down_->value().scalar_type());
    const auto rows = sent_.there(order_.rows(input_), "rows");
    inner_ = inner(rows, learns);
    auto out = matrices_.out[0].times(matrices_.gate.forward(inner_), sent_.groups(), !learns);
    if (adds_out_bias()) out.add_(bias_of_rows(matrices_.out_bias));
    auto sum = order_.sums(sent_.back(out, "results"), weights_);
    const bool reads_again = learns && trains();
    if (sent_.travels() && reads_again) rows_ = rows;
    if (!reads_again || gathered_ || sent_.travels()) input_.reset();
    if (scatters_) return ranks_.scatter_sum(sum, label_of("rows", down_));
    if (sums_) ranks_.group().all_reduce(sum, comm::ReduceOp::Sum, label_of("rows", down_));
    return sum.view(shape_);
  }

  /// Gradients of x and of the routing's weights. `late` takes the products of weights' gradients;
  /// null: they are computed at once.
  std::vector<at::Tensor> backward(const at::Tensor& grad, LateWrites* late) const {
    const auto own = grad.reshape({-1, grad.size(-1)}).to(inner_[0].scalar_type());
    const auto g = scatters_ ? ranks_.gather(own, label_of("gradient of rows", down_)) : own;
    const auto rows = sent_.there(order_.rows(g), "gradients of results");  // [R, D]
    const auto hidden = matrices_.gate.forward(inner_);                     // [R, F]
    auto back = matrices_.out[0].back(rows, sent_.groups());
    const auto weights = sent_.there(order_.values(weights_), "weights of rows");
    const auto factors = weights.unsqueeze(1).to(back.scalar_type());
    at::Tensor of_weights;
    if (wants_weights_) of_weights = weight_grads(back, hidden, rows);
    const auto of_inner = gradients_of_inner(back.mul_(factors));
    // Ranks that share out tokens add up their gradients of what each has whole.
    const bool counts = !scatters_ || ranks_.group().rank() == 0;
    const auto write = [matrices = matrices_, sent = sent_, read = reader(), rows, factors, hidden,
                        of_inner, counts] {
      matrices.out[0].add_weight_grads(rows, hidden * factors, sent.groups());
      if (matrices.out_bias) {
        const auto grads = counts ? rows * factors : at::zeros_like(rows);
        add_bias_grads(matrices.out_bias, grads, sent);
      }
      add_bias_grads(matrices.in_bias, of_inner[0], sent);
      const auto input = read();
      for (size_t i = 0; i < matrices.in.size(); ++i) {
        matrices.in[i].add_weight_grads(of_inner[i], input, sent.groups());
      }
    };
    if (trains()) late != nullptr&& wants_grad_ ? late->add(write) : write();
    if (!wants_grad_) return {at::Tensor(), of_weights};
    auto of_rows = matrices_.in[0].back(of_inner[0], sent_.groups());
    for (size_t i = 1; i < matrices_.in.size(); ++i) {
      of_rows.add_(matrices_.in[i].back(of_inner[i], sent_.groups()));
    }
    of_rows = sent_.back(of_rows, "gradients of rows");
    return {order_.sums(of_rows).view(shape_).to(dtype_), of_weights};
  }

 private:
  /// Rows of all tokens, where this rank has some of them.
  at::Tensor of_all(const at::Tensor& own, const char* what) const {
    return scatters_ ? ranks_.gather(own, label_of(what, down_)) : own;
  }

  at::Tensor bias_of_rows(const ParamPtr& bias) const {
    return bias->value().index_select(0, sent_.experts());
  }
  /// Whether this rank's part of the sum has the bias of down: the first one's.
  bool adds_out_bias() const {
    return matrices_.out_bias && (!sums_ || ranks_.group().rank() == 0);
  }

  /// Products with gate and up: [R, F] each, or one [R, 2F].
  std::vector<at::Tensor> inner(const at::Tensor& rows, bool learns) const {
    std::vector<at::Tensor> out;
    for (const auto& product : matrices_.in) {
      out.push_back(product.times(rows, sent_.groups(), !learns));
    }
    if (matrices_.in_bias) out[0].add_(bias_of_rows(matrices_.in_bias));
    return halves_apart() ? out[0].chunk(2, 1) : out;
  }
  /// Whether one product has gate and up in its halves.
  bool halves_apart() const { return matrices_.in.size() == 1 && !matrices_.gate.kind.empty(); }

  /// Gradients of the products in Matrices::in.
  std::vector<at::Tensor> gradients_of_inner(const at::Tensor& grad) const {
    auto parts = matrices_.gate.backward(inner_, grad);
    if (halves_apart()) return {at::cat(parts, 1)};
    return parts;
  }

  /// Gradient of the routing's weights, from the gradients `back` of the rows `hidden` before down,
  /// and `rows` of those behind it.
  at::Tensor weight_grads(const at::Tensor& back, const at::Tensor& hidden,
                          const at::Tensor& rows) const {
    auto of_rows = (back * hidden).sum(1, false, at::kFloat);
    if (adds_out_bias()) {
      of_rows.add_((rows * bias_of_rows(matrices_.out_bias)).sum(1, false, at::kFloat));
    }
    auto pairs = order_.pairs(sent_.back(of_rows, "gradients of weights"));
    const auto label = label_of("gradient of weights of experts", down_);
    if (scatters_) return ranks_.scatter_sum(pairs, label);
    if (sums_) ranks_.group().all_reduce(pairs, comm::ReduceOp::Sum, label);
    return pairs;
  }

  /// Reader of the rows before gate and up, [R, D].
  std::function<at::Tensor()> reader() const {
    return [order = order_, gathered = gathered_, input = input_, rows = rows_] {
      return rows.defined() ? rows : order.rows(gathered ? gathered->take() : input);
    };
  }

  Matrices matrices_;
  TensorRanks ranks_;
  ParamPtr down_;  // of the first expert
  bool sums_, scatters_;
  std::shared_ptr<GatheredInput> gathered_;
  std::vector<int64_t> shape_;
  RowsByExpert order_;
  ExpertRows sent_;
  at::Tensor weights_;  // [N, k] fp32
  bool wants_grad_, wants_weights_;
  at::ScalarType dtype_;
  at::Tensor input_;               // [N, D]; undefined where rows_ are kept
  at::Tensor rows_;                // [R, D], where they came from other ranks
  std::vector<at::Tensor> inner_;  // products with gate and up
};

at::Tensor sum_of(const Operand& x, const Routing& routing, Matrices matrices,
                  const TensorRanks& ranks, const ExpertRanks& dealt, const std::string& name) {
  Experts state(x, routing, std::move(matrices), ranks, dealt, name);
  const bool learns = state.learns();
  const auto out = without_grad([&] { return state.forward(x.value, learns); });
  if (!learns) return out;
  if (x.gathered && state.trains()) x.gathered->add_reader();
  return with_backward(
      out, {x.edge, routing.weights},
      [state, late = x.late](const at::Tensor& grad) { return state.backward(grad, late.get()); });
}

}  // namespace

at::Tensor experts(const Operand& x, const Routing& routing, const std::vector<ExpertParams>& all,
                   const std::string& activation, const TensorRanks& ranks,
                   const ExpertRanks& dealt) {
  return sum_of(x, routing, matrices_of(here(all, dealt), activation, x.value.is_cuda()), ranks,
                dealt, all.front().down->spec().name);
}

at::Tensor experts(const Operand& x, const Routing& routing, const ExpertStacks& all,
                   const TensorRanks& ranks, const ExpertRanks& dealt) {
  return sum_of(x, routing, matrices_of(all), ranks, dealt, all.down->spec().name);
}

}  // namespace convoy::nn
