#include "convoy/nn/attention/attention.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/nn/attention/by_document.h"
#include "convoy/nn/attention/cudnn_attention.h"
#include "convoy/nn/attention/flash_attention.h"
#include "convoy/nn/attention/ring_attention.h"
#include "convoy/nn/attention/score_dropout.h"
#include "convoy/nn/attention/seen.h"
#include "convoy/nn/attention/short_attention.h"
#include "convoy/nn/layers/dropout_device.h"
#include "convoy/nn/node.h"
#include "convoy/nn/shapes_only.h"
#include "convoy/nn/soft_cap.h"

// Shapes: B rows, T positions, S positions looked at, H heads, K key heads, G = H / K, E width of a
// head; a piece holds R rows and n queries.
namespace convoy::nn {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
// A piece of a window's attention has no fewer queries.
constexpr int64_t kFewQueries = 64;

/// Whether one call takes several query heads for each key head, without copies of it: on a GPU,
/// where torch's flash kernel supports the shapes.
bool takes_groups(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const std::optional<at::Tensor>& mask, bool triangle, double scale) {
  if (!q.is_cuda()) return false;
  const auto choice = at::_fused_sdp_choice(q, k, v, mask, 0.0, triangle, scale,
                                            /*enable_gqa=*/true);
  return choice == static_cast<int64_t>(at::SDPBackend::flash_attention);
}

/// Result of torch's kernel for processors with the tensors that autograd keeps, without its
/// arithmetic.
at::Tensor shapes_of_flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::optional<at::Tensor>& mask, bool triangle, double scale) {
  const at::Tensor Q = q.detach(), K = k.detach(), V = v.detach();
  const auto [out, sums] = without_grad([&] {
    return at::_scaled_dot_product_flash_attention_for_cpu(Q, K, V, 0.0, triangle, mask, scale);
  });
  return with_backward(
      out, {q, k, v},
      [=, kept = out.detach(), sums = sums](const at::Tensor& grad) -> std::vector<at::Tensor> {
        auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
            grad, Q, K, V, kept, sums, 0.0, triangle, mask, scale);
        return {dq, dk, dv};
      });
}

at::Tensor fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                 const AttentionOptions& options, double scale) {
  auto mask = visible(options, q, k);
  const bool triangle = options.causal && !mask && q.size(2) > 1;
  if (options.bias.defined()) {
    auto bias = options.bias.to(q.scalar_type());
    mask = mask ? at::where(*mask, bias, kNever) : bias;
  }
  auto attend = [&](const at::Tensor& queries, const std::optional<at::Tensor>& seen) {
    const bool groups = queries.size(1) != k.size(1);
    if (shapes_only() && !groups &&
        at::_fused_sdp_choice(queries, k, v, seen, 0.0, triangle, scale) ==
            static_cast<int64_t>(at::SDPBackend::flash_attention)) {
      return shapes_of_flash(queries, k, v, seen, triangle, scale);
    }
    return at::scaled_dot_product_attention(queries, k, v, seen, 0.0, triangle, scale, groups);
  };
  if (!mask && !options.any_length) {
    if (const auto out = cudnn_attention(q, k, v, triangle, scale); out.defined()) return out;
  }
  const int64_t K = k.size(1), G = q.size(1) / K;
  if (G == 1 || takes_groups(q, k, v, mask, triangle, scale)) return attend(q, mask);
  auto groups = q.unflatten(1, {K, G});
  std::vector<at::Tensor> parts;
  for (int64_t g = 0; g < G; ++g) {
    auto seen = mask;
    if (mask && mask->size(1) > 1) seen = mask->unflatten(1, {K, G}).select(2, g);
    parts.push_back(attend(groups.select(2, g), seen));
  }
  return at::stack(parts, 2).flatten(1, 2);
}

/// Attention with dropout, bias, sinks, cap or window, a piece of rows and queries at a time.
class Pieces {
 public:
  Pieces(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
         const AttentionOptions& options, const Context& context, double scale)
      : q_(q.detach()),
        k_(k.detach()),
        v_(v.detach()),
        options_(options),
        context_(context),
        scale_(scale),
        B_(q.size(0)),
        H_(q.size(1)),
        T_(q.size(2)),
        S_(k.size(2)),
        K_(k.size(1)),
        first_(S_ - T_) {
    if (options.bias.defined()) options_.bias = options.bias.detach();
    if (options.sinks.defined()) options_.sinks = options.sinks.detach();
    const int64_t elements = q.is_cpu() ? int64_t{1} << 19 : int64_t{1} << 26;
    rows_ = std::clamp<int64_t>(elements / (H_ * T_ * S_), 1, B_);
    queries_ = std::clamp<int64_t>(elements / (H_ * S_), 1, T_);
    if (is_windowed(options, S_)) {
      // Takes as many queries as the window has keys, so that half of the computed scores are
      // visible.
      const int64_t n = std::min(T_, std::max<int64_t>(options.window, kFewQueries));
      queries_ = std::clamp<int64_t>(elements / (H_ * std::min(S_, options.window + n)), 1, n);
      const int64_t scores = H_ * queries_ * std::min(S_, options.window + queries_);
      rows_ = std::clamp<int64_t>(elements / scores, 1, B_);
    }
    if (!q.is_cpu() && queries_ > kDrawChunk) queries_ -= queries_ % kDrawChunk;
    keeps_ = rows_ == B_ && queries_ == T_;
  }

  at::Tensor forward() {
    auto out = at::empty({B_, T_, H_, q_.size(3)}, q_.options()).transpose(1, 2);
    each([&](const Place& at) {
      auto weights = weights_at(at);
      if (keeps_) kept_ = weights;
      auto mixed = at::matmul(grouped(dropped(weights, /*last=*/!keeps_)), keys(v_, at));
      if (weights.dropout.factor() != 1) mixed.mul_(weights.dropout.factor());
      queries(out, at).copy_(mixed.view({at.R, H_, at.n, q_.size(3)}));
    });
    return out;
  }

  std::vector<at::Tensor> backward(const at::Tensor& grad) {
    auto dq = at::empty_like(q_);
    at::Tensor dk, dv, dbias, dsinks;
    const auto& learned = options_.bias;
    if (learned.defined()) dbias = at::zeros(learned.sizes(), learned.options().dtype(at::kFloat));
    if (options_.sinks.defined()) dsinks = at::zeros_like(options_.sinks, at::kFloat);
    if (!keeps_) {
      dk = at::zeros(k_.sizes(), k_.options().dtype(at::kFloat));
      dv = at::zeros_like(dk);
    }
    each([&](const Place& at) {
      auto weights = keeps_ ? *kept_ : weights_at(at);
      auto add = [&](at::Tensor& total, const at::Tensor& part) {
        if (keeps_) {
          total = part;
        } else {
          keys(total, at).add_(part);
        }
      };
      const auto& dropout = weights.dropout;
      auto g = grouped(queries(grad, at));
      if (dropout.factor() != 1) g = g * dropout.factor();
      auto dq_here = queries(dq, at);
      add(dv, at::matmul(grouped(dropped(weights, /*last=*/false)).transpose(2, 3), g));
      auto slope = at::matmul(g, keys(v_, at).transpose(2, 3)).to(weights_dtype());
      slope = slope.view(weights.probabilities.sizes());
      dropout.drop(slope);
      slope = slope_of_scores(slope, weights, dsinks);
      if (dbias.defined()) bias(dbias, at).add_(slope.sum(0, true));
      if (weights.turn.defined()) slope.mul_(weights.turn);
      if (scales_scores()) slope.mul_(scale_);
      auto scores = grouped(slope.to(q_.scalar_type()));
      dq_here.copy_(at::matmul(scores, keys(k_, at)).view(dq_here.sizes()));
      if (scales_queries()) dq_here.mul_(scale_);
      add(dk, at::matmul(scores.transpose(2, 3), grouped(scaled_queries(at))));
    });
    if (dbias.defined()) dbias = dbias.to(learned.scalar_type());
    if (dsinks.defined()) dsinks = dsinks.to(options_.sinks.scalar_type());
    return {dq, dk.to(k_.scalar_type()), dv.to(v_.scalar_type()), dbias, dsinks};
  }

 private:
  struct Place {
    int64_t row, R, query, n, key, S;
  };
  struct Weights {
    at::Tensor probabilities;  // [R, H, n, S] of weights_dtype()
    ScoreDropout dropout;
    at::Tensor turn;       // slope of the cap, fp32; undefined without one
    at::Tensor with_sink;  // [R, H, n, S + 1]: probabilities and the sink's; undefined without one
  };

  /// Dtype of the probabilities: fp32, but bf16 where inputs are bf16 on a GPU, where memory
  /// traffic dominates. (fp16 would overflow where fp32 does not.)
  at::ScalarType weights_dtype() const {
    const bool narrow =
        q_.is_cuda() && q_.scalar_type() == at::kBFloat16 && !options_.bias.defined();
    return narrow ? at::kBFloat16 : at::kFloat;
  }

  /// Whether queries are scaled instead of scores: on a GPU, by powers of two, which do not round.
  bool scales_queries() const {
    int exponent = 0;
    return q_.is_cuda() && scale_ != 1 && std::frexp(scale_, &exponent) == 0.5;
  }
  bool scales_scores() const { return scale_ != 1 && !scales_queries(); }
  at::Tensor scaled_queries(const Place& at) const {
    const auto read = queries(q_, at);
    return scales_queries() ? read * scale_ : read;
  }

  template <class Work>
  void each(const Work& work) const {
    for (int64_t row = 0; row < B_; row += rows_) {
      for (int64_t query = 0; query < T_; query += queries_) {
        const int64_t n = std::min(queries_, T_ - query);
        auto [key, S] = keys_seen(options_, first_ + query, n, S_);
        if (!q_.is_cpu()) {  // masks of dropout are drawn in whole chunks
          S += key % kDrawChunk;
          key -= key % kDrawChunk;
        }
        work(Place{row, std::min(rows_, B_ - row), query, n, key, S});
      }
    }
  }

  static at::Tensor queries(const at::Tensor& x, const Place& at) {
    return x.narrow(0, at.row, at.R).narrow(2, at.query, at.n);
  }
  static at::Tensor keys(const at::Tensor& x, const Place& at) {
    return x.narrow(0, at.row, at.R).narrow(2, at.key, at.S);
  }
  /// Views [R, H, n, any] as [R, K, G x n, any].
  at::Tensor grouped(const at::Tensor& x) const {
    return x.reshape({x.size(0), K_, H_ / K_ * x.size(2), x.size(3)});
  }
  static at::Tensor bias(const at::Tensor& whole, const Place& at) {
    return whole.narrow(2, at.query, at.n).narrow(3, at.key, at.S);
  }
  /// Gradient of the scores for the probabilities' `slope`; adds to that of the sinks.
  at::Tensor slope_of_scores(const at::Tensor& slope, const Weights& weights,
                             at::Tensor& dsinks) const {
    if (!dsinks.defined()) {
      return at::_softmax_backward_data(slope, weights.probabilities, -1, weights_dtype());
    }
    const int64_t S = slope.size(3);
    const auto all = at::_softmax_backward_data(at::constant_pad_nd(slope, {0, 1}),
                                                weights.with_sink, -1, weights_dtype());
    dsinks.add_(all.select(3, S).sum({0, 2}, false, at::kFloat));
    return all.narrow(3, 0, S);
  }

  /// Probabilities after dropout. `last`: they may be overwritten, as nothing reads them
  /// afterwards.
  at::Tensor dropped(Weights& weights, bool last) const {
    auto& p = weights.probabilities;
    if (!last) return weights.dropout.kept(p).to(v_.scalar_type());
    weights.dropout.drop(p);
    return p.to(v_.scalar_type());
  }

  Weights weights_at(const Place& at) const {
    auto scores = at::matmul(grouped(scaled_queries(at)), keys(k_, at).transpose(2, 3));
    if (scales_scores()) scores.mul_(scale_);
    scores = scores.view({at.R, H_, at.n, at.S});
    at::Tensor turn;
    if (options_.cap != 0) turn = slope_of_cap(cap_scores(scores, options_.cap), options_.cap);
    if (options_.bias.defined()) scores = scores.to(at::kFloat).add_(bias(options_.bias, at));
    auto mask = options_.key_mask;
    if (mask.defined()) mask = mask.narrow(0, at.row, at.R).narrow(1, at.key, at.S);
    hide_unseen(scores, options_, mask, first_ + at.query, {at.key, at.S});
    at::Tensor with_sink;
    if (options_.sinks.defined()) {
      const auto sinks = options_.sinks.to(scores.scalar_type()).view({1, H_, 1, 1});
      scores = at::cat({scores, sinks.expand({at.R, H_, at.n, 1})}, 3);
      with_sink = at::softmax(scores, -1, weights_dtype());
    }
    auto probabilities = with_sink.defined() ? with_sink.narrow(3, 0, at.S)
                                             : at::softmax(scores, -1, weights_dtype());
    if (options_.dropout == 0) return {probabilities, {}, turn, with_sink};
    auto here = context_;
    here.samples = context_.samples.narrow(0, at.row, at.R);
    const ScorePlace place{{at.R, H_, at.n, at.S},
                           {H_, options_.max_length, options_.max_length},
                           {options_.first_head, options_.first_position + at.query,
                            options_.first_position + at.key}};
    return {probabilities,
            {place, options_.dropout, here, options_.site, q_.device()},
            turn,
            with_sink};
  }

  at::Tensor q_, k_, v_;
  AttentionOptions options_;
  Context context_;
  double scale_;
  int64_t B_, H_, T_, S_, K_;
  int64_t first_;                   // position of the first query, where attention is causal
  int64_t rows_ = 0, queries_ = 0;  // of a piece
  bool keeps_ = false;              // all is one small piece: not made again
  std::optional<Weights> kept_;
};

/// Whether a window, sinks or a cap rule out torch's kernel.
bool needs_pieces(const AttentionOptions& options, const at::Tensor& k) {
  return options.cap != 0 || options.sinks.defined() || is_windowed(options, k.size(2));
}

/// Attention outside of training.
at::Tensor in_pieces(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options, const Context& context) {
  auto plain = options;
  plain.dropout = 0;
  return without_grad(
      [&] { return Pieces(q, k, v, plain, context, scale_of(plain, q)).forward(); });
}

/// Attention of the last T positions to all cached keys.
at::Tensor attend_kept(const at::Tensor& q, const KvCache::Seen& all,
                       const AttentionOptions& options, const Context& context) {
  if (!needs_pieces(options, all.keys)) {
    return fused(q, all.keys, all.values, options, scale_of(options, q));
  }
  if (options.cap != 0 || options.sinks.defined() || q.size(2) > 1) {
    const auto out = flash_attention(q, all.keys, all.values, options, context);
    if (out.defined()) return out;
    return in_pieces(q, all.keys, all.values, options, context);
  }
  // The visible keys of a single query are contiguous.
  const auto [begin, size] = keys_seen(options, all.keys.size(2) - 1, 1, all.keys.size(2));
  auto here = options;
  here.window = 0;
  if (here.key_mask.defined()) here.key_mask = here.key_mask.narrow(1, begin, size);
  return fused(q, all.keys.narrow(2, begin, size), all.values.narrow(2, begin, size), here,
               scale_of(options, q));
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionOptions& options, const Context& context) {
  if (options.documents.defined()) return attend_by_document(attend, q, k, v, options, context);
  const double scale = scale_of(options, q);
  const bool by_pieces = needs_pieces(options, k);
  if (options.ranks.shares()) {
    internal_check(!by_pieces, "nn", "{}: a window, sinks or a cap over context ranks",
                   options.name);
    return ring_attention(q, k, v, options, scale, context);
  }
  if (by_pieces) {
    if (const auto out = flash_attention(q, k, v, options, context); out.defined()) return out;
  }
  const bool plain = options.dropout == 0 && !options.bias.defined();
  const bool trains = context.mode == Mode::Train;
  if (!trains && by_pieces) return in_pieces(q, k, v, options, context);
  if (trains && is_short(q, k, options)) return short_attention(q, k, v, options, scale);
  if (!by_pieces && (plain || !trains)) return fused(q, k, v, options, scale);
  auto pieces = std::make_shared<Pieces>(q, k, v, options, context, scale);
  const auto out = without_grad([&] { return pieces->forward(); });
  return with_backward(out, {q, k, v, options.bias, options.sinks},
                       [pieces](const at::Tensor& grad) { return pieces->backward(grad); });
}

}  // namespace

double scale_of(const AttentionOptions& options, const at::Tensor& q) {
  return options.scale > 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.size(-1)));
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options, const Context& context) {
  if (context.cache == nullptr || !options.causal) return attend(q, k, v, options, context);
  internal_check(!options.documents.defined(), "nn", "{}: documents with a cache", options.name);
  const auto all = options.kept
                       ? KvCache::Seen{k, v}
                       : context.cache->append(context.block, options.site, k, v, options.window);
  auto here = options;
  if (auto& mask = here.key_mask; mask.defined()) {  // of all positions so far
    const int64_t seen = all.keys.size(2);
    mask = mask.narrow(1, mask.size(1) - seen, seen);
  }
  return attend_kept(q, all, here, context);
}

at::Tensor cross_attention(const at::Tensor& q, const std::function<KvCache::Seen()>& make,
                           const AttentionOptions& options, const Context& context) {
  const auto other =
      context.cache ? context.cache->keep(context.block, options.site, make) : make();
  return attend(q, other.keys, other.values, options, context);
}

}  // namespace convoy::nn
