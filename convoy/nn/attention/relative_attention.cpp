#include "convoy/nn/attention/relative_attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <memory>

#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/node.h"

namespace convoy::nn {

namespace {

/// Relative attention. Keeps queries, keys, values and probabilities for backward, which recomputes
/// the rest.
class RelativeAttention {
 public:
  RelativeAttention(const RelativeQueries& queries, const at::Tensor& k, const at::Tensor& v,
                    const at::Tensor& r, const RelativeOptions& options, const Context& context)
      : B_(k.size(0)),
        H_(k.size(1)),
        T_(k.size(2)),
        E_(k.size(3)),
        word_bias_(queries.word_bias),
        distance_bias_(queries.distance_bias),
        q_(queries.states.detach()),
        k_(k.detach()),
        v_(v.detach()),
        r_(r.detach()),
        scale_(1 / std::sqrt(static_cast<double>(E_))) {
    if (options.seen.defined()) blind_ = options.seen.any(-1, true).logical_not();
    if (context.mode == Mode::Train && options.dropout > 0) {
      const int64_t longest = options.max_length;
      mask_ = dropout_mask({B_, H_, T_, T_}, options.dropout, context, options.site,
                           {H_, longest, longest}, {}, k.device());
    }
  }

  at::Tensor forward(const at::Tensor& seen) {
    auto scores = at::matmul(for_words(), k_.transpose(2, 3));
    const auto by_distance = at::bmm(for_distances(), r_.transpose(1, 2));
    scores = scores.add_(by_key(by_distance)).to(at::kFloat).mul_(scale_);
    if (seen.defined()) scores.add_(at::where(seen, 0.0, kNever).to(at::kFloat));
    probabilities_ = at::softmax(scores, -1);
    return without_blind(at::matmul(dropped(probabilities_), v_));
  }

  std::vector<at::Tensor> backward(const at::Tensor& upstream) const {
    const auto grad = without_blind(upstream);
    const auto grad_v = at::matmul(dropped(probabilities_).transpose(2, 3), grad);
    auto slopes = at::matmul(grad, v_.transpose(2, 3)).to(at::kFloat);
    if (mask_.defined()) slopes.mul_(mask_);
    slopes = at::_softmax_backward_data(slopes, probabilities_, -1, at::kFloat)
                 .mul_(scale_)
                 .to(q_.scalar_type());
    const auto of_words = at::matmul(slopes, k_);
    const auto grad_k = at::matmul(slopes.transpose(2, 3), for_words());
    const auto by_distance = at::zeros({H_, B_ * T_, 2 * T_}, slopes.options());
    by_key(by_distance).copy_(slopes);
    const auto of_distances = at::bmm(by_distance, r_);  // [H, B x T, E]
    const auto grad_r = at::bmm(by_distance.transpose(1, 2), for_distances());
    word_bias_->add_grad(of_words.sum({0, 2}, false, at::kFloat));
    distance_bias_->add_grad(of_distances.sum(1, false, at::kFloat));
    const auto grad_q = of_words + of_distances.view({H_, B_, T_, E_}).transpose(0, 1);
    return {grad_q, grad_k, grad_v, grad_r};
  }

 private:
  static constexpr double kNever = -1e30;  // finite, so that seeing nothing is no NaN

  static at::Tensor bias(const ParamPtr& param, const at::Tensor& of) {
    return param->value().to(of.scalar_type()).unsqueeze(1);  // [H, 1, E]
  }

  /// Queries [B, H, T, E] with the bias for content.
  at::Tensor for_words() const {
    auto out = at::empty({B_, H_, T_, E_}, q_.options());
    return at::add_out(out, q_, bias(word_bias_, q_));
  }
  /// Queries [H, B x T, E] with the bias for positions, in which all rows of a head are one matrix.
  at::Tensor for_distances() const {
    auto out = at::empty({H_, B_, T_, E_}, q_.options());
    at::add_out(out, q_.transpose(0, 1), bias(distance_bias_, q_).unsqueeze(1));
    return out.view({H_, B_ * T_, E_});
  }
  /// View [B, H, T, T] by key of scores [H, B x T, 2 T] by distance: row i begins T - i further
  /// right.
  at::Tensor by_key(const at::Tensor& by_distance) const {
    return by_distance.as_strided({B_, H_, T_, T_}, {2 * T_ * T_, 2 * B_ * T_ * T_, 2 * T_ - 1, 1},
                                  T_);
  }
  at::Tensor dropped(const at::Tensor& probabilities) const {
    return (mask_.defined() ? probabilities * mask_ : probabilities).to(v_.scalar_type());
  }
  at::Tensor without_blind(const at::Tensor& x) const {
    return blind_.defined() ? x.masked_fill(blind_, 0) : x;
  }

  int64_t B_, H_, T_, E_;
  ParamPtr word_bias_, distance_bias_;
  at::Tensor q_, k_, v_, r_;
  double scale_;
  at::Tensor blind_;  // [B or 1, 1, T, 1] bool: queries that see nothing
  at::Tensor mask_, probabilities_;
};

}  // namespace

at::Tensor distance_sinusoids(int64_t length, int64_t width, at::Device device) {
  const auto fp32 = at::device(device).dtype(at::kFloat);
  const auto distances = at::arange(length, -length, -1, fp32);
  const auto steps = at::arange(0, width, 2, fp32) / static_cast<double>(width);
  const auto angles = at::outer(distances, at::pow(10000.0, steps).reciprocal());
  return at::cat({angles.sin(), angles.cos()}, 1);
}

at::Tensor relative_attention(const RelativeQueries& queries, const at::Tensor& k,
                              const at::Tensor& v, const at::Tensor& r,
                              const RelativeOptions& options, const Context& context) {
  const auto [out, state] = without_grad([&] {
    auto made = std::make_shared<RelativeAttention>(queries, k, v, r, options, context);
    return std::pair(made->forward(options.seen), made);
  });
  return with_backward(out, {queries.states, k, v, r},
                       [state = state](const at::Tensor& grad) { return state->backward(grad); });
}

}  // namespace convoy::nn
