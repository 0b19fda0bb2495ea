#include "convoy/nn/delta/gated_delta_rule.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <memory>

#include "convoy/nn/delta/delta_chunks.h"
#include "convoy/nn/node.h"
#include "convoy/nn/shapes_only.h"

// Shapes: B rows, T positions, H heads of values, E and V widths of a head of keys and of values;
// of a piece R rows and L positions, of a stretch c chunks of C positions.
namespace convoy::nn {

namespace {

constexpr double kLengthEpsilon = 1e-6;  // of squared lengths
constexpr int64_t kDeltaPart = 8 * kDeltaChunk;
constexpr int64_t kFewPositions = 16;  // all heads of so short a piece are computed at once

/// Rows, positions and heads of keys that are computed one after the other.
struct DeltaPiece {
  int64_t row = 0, rows = 1, begin = 0, length = 0, head = 0, heads = 1;
  int64_t saved = 0;  ///< place of its first saved state

  int64_t stretches() const { return (length + kDeltaPart - 1) / kDeltaPart; }
};

/// Part of a piece, at most kDeltaPart positions.
struct DeltaPart {
  int64_t begin = 0, length = 0;

  int64_t chunk() const { return std::min(kDeltaChunk, length); }
  int64_t padding() const { return (chunk() - length % chunk()) % chunk(); }
};

DeltaPart part_of(const DeltaPiece& piece, int64_t number) {
  const int64_t begin = number * kDeltaPart;
  return {piece.begin + begin, std::min(kDeltaPart, piece.length - begin)};
}

/// Rows x [R, L, heads, ...] of a stretch as [R heads, c, C, ...] fp32.
at::Tensor as_chunks(const at::Tensor& x, const DeltaPart& stretch) {
  auto out = x.transpose(1, 2).to(at::kFloat);
  if (stretch.padding() > 0) {
    std::vector<int64_t> pad(static_cast<size_t>(2 * (x.dim() - 2)), 0);
    pad.back() = stretch.padding();
    out = at::constant_pad_nd(out, pad);
  }
  return out.contiguous().flatten(0, 1).unflatten(1, {-1, stretch.chunk()});
}

/// Puts chunks [R heads, c, C, ...] back into x [R, L, heads, ...].
void put_chunks(at::Tensor x, const at::Tensor& chunks) {
  const auto rows = chunks.flatten(1, 2).unflatten(0, {x.size(0), x.size(2)});
  x.copy_(rows.narrow(2, 0, x.size(1)).transpose(1, 2));
}

struct DeltaNormalised {
  at::Tensor value, scale;  // [..., E], [..., 1]
};

DeltaNormalised unit_rows(const at::Tensor& x, double factor) {
  const auto scale = (x.square().sum(-1, /*keepdim=*/true) + kLengthEpsilon).rsqrt_();
  return {x * scale * factor, scale};
}

/// Gradient of x by that of its normalised value.
at::Tensor before_norm(const DeltaNormalised& x, const at::Tensor& grad, double factor) {
  const auto unit = x.value / factor;
  return (grad - unit * (grad * unit).sum(-1, /*keepdim=*/true)).mul_(x.scale).mul_(factor);
}

/// Records so many multiplications and additions for a trace that skips the arithmetic
/// (ShapesOnly).
void tell_products(double products) {
  if (!shapes_only()) return;
  const auto inner = static_cast<int64_t>(products);
  const auto one = at::zeros({1, 1, 1});
  at::bmm(one.expand({1, 1, inner}), one.expand({1, inner, 1}));
}

class DeltaRule {
 public:
  DeltaRule(const at::Tensor& mixed, const at::Tensor& decay, const at::Tensor& beta,
            const DeltaOptions& options)
      : mixed_(mixed.detach()),
        decay_(decay.detach()),
        beta_(beta.detach()),
        heads_(options.heads),
        scale_(1 / std::sqrt(static_cast<double>(options.heads.key_width))) {
    const int64_t B = mixed.size(0), T = mixed.size(1);
    if (options.documents.empty()) {
      if (!mixed.is_cpu() || T <= kFewPositions) {
        add_pieces({.rows = B, .length = T});
      } else {
        for (int64_t row = 0; row < B; ++row) add_pieces({.row = row, .length = T});
      }
    }
    for (const auto& document : options.documents) {
      has_padding_ = has_padding_ || document.is_padding;
      if (document.is_padding) continue;
      add_pieces({.row = document.row, .begin = document.begin, .length = document.length});
    }
  }

  at::Tensor forward(at::Tensor* state, bool learns) {
    auto out = like_inputs(mixed_, {heads_.values, heads_.value_width});
    if (learns) saved_ = at::empty({num_saved_}, decay_.options());
    tell_products(products({.by_key = 2, .of_keys = 1, .of_values = 2, .of_states = 3}));
    const bool goes_on = state != nullptr && state->defined();
    const at::Tensor before = goes_on ? *state : at::Tensor();
    if (state != nullptr) {
      *state = at::empty({mixed_.size(0), heads_.values, heads_.key_width, heads_.value_width},
                         decay_.options());
    }
    each([&](const DeltaPiece& piece) {
      auto carried = before.defined() ? of_piece(before, piece).flatten(0, 1) : fresh(piece);
      for (int64_t s = 0; s < piece.stretches(); ++s) {
        const auto stretch = part_of(piece, s);
        if (learns) saved(piece, s).copy_(carried);
        DeltaChunks chunks(read(piece, stretch).in);
        chunks.scan(carried);
        put_chunks(values_at(out, piece, stretch), chunks.heard());
      }
      if (state != nullptr) of_piece(*state, piece).flatten(0, 1).copy_(carried);
    });
    return out;
  }

  std::vector<at::Tensor> backward(const at::Tensor& grad) const {
    auto of_mixed = like_inputs(mixed_, {heads_.columns()});
    auto of_decay = like_inputs(decay_, {heads_.values}),
         of_beta = like_inputs(beta_, {heads_.values});
    tell_products(products({.by_key = 5, .of_keys = 3, .of_values = 5, .of_states = 8}));
    each([&](const DeltaPiece& piece) {
      auto carried = fresh(piece);
      for (int64_t s = piece.stretches() - 1; s >= 0; --s) {
        const auto stretch = part_of(piece, s);
        const auto given = read(piece, stretch);
        auto state = saved(piece, s).clone();
        DeltaChunks chunks(given.in);
        chunks.scan(state);
        const auto back =
            chunks.backward(as_chunks(values_at(grad, piece, stretch), stretch), carried);
        put_chunks(queries_at(of_mixed, piece, stretch), before_norm(given.q, back.q, scale_));
        put_chunks(keys_at(of_mixed, piece, stretch), before_norm(given.k, back.k, 1));
        put_chunks(columns_of_values_at(of_mixed, piece, stretch), back.v);
        put_chunks(values_at(of_decay, piece, stretch), back.decay);
        put_chunks(values_at(of_beta, piece, stretch), back.beta);
      }
    });
    return {of_mixed, of_decay, of_beta};
  }

 private:
  struct Given {
    DeltaNormalised q, k;
    DeltaStretch in;
  };

  /// Numbers of products: of a chunk's positions with its keys, by head of keys and by head of
  /// values; with its values; and of positions with states.
  struct Products {
    double by_key, of_keys, of_values, of_states;
  };

  /// Multiplications of a pass over all pieces.
  double products(const Products& of) const {
    const auto E = static_cast<double>(heads_.key_width),
               V = static_cast<double>(heads_.value_width);
    double out = 0;
    for (const auto& piece : pieces_) {
      for (int64_t s = 0; s < piece.stretches(); ++s) {
        const auto part = part_of(piece, s);
        const auto C = static_cast<double>(part.chunk());
        const auto positions = static_cast<double>(piece.rows * (part.length + part.padding()));
        const auto r = static_cast<double>(heads_.values_of_key());
        const double by_value = C * (of.of_keys * E + of.of_values * V) + of.of_states * E * V;
        out += positions * static_cast<double>(piece.heads) * (of.by_key * C * E + r * by_value);
      }
    }
    return out;
  }

  void add_pieces(DeltaPiece piece) {
    const int64_t heads = mixed_.is_cpu() && piece.length > kFewPositions ? 1 : heads_.keys;
    for (piece.head = 0; piece.head < heads_.keys; piece.head += heads) {
      piece.heads = heads;
      piece.saved = num_saved_;
      num_saved_ += piece.stretches() * piece.rows * elements(piece);
      pieces_.push_back(piece);
    }
  }

  int64_t elements(const DeltaPiece& piece) const {  // of the states of one row
    return heads_.state() / heads_.keys * piece.heads;
  }

  template <class Work>
  void each(const Work& work) const {
    if (shapes_only()) return;
    // Who counts operations of this thread sees all of them.
    if (!mixed_.is_cpu() || at::hasThreadLocalCallbacks()) {
      for (const auto& piece : pieces_) work(piece);
      return;
    }
    at::parallel_for(0, std::ssize(pieces_), 1, [&](int64_t begin, int64_t end) {
      at::NoGradGuard no_grad;  // of this thread
      for (int64_t i = begin; i < end; ++i) work(pieces_[static_cast<size_t>(i)]);
    });
  }

  /// Memory [B, T, sizes], with zeros where no piece writes.
  at::Tensor like_inputs(const at::Tensor& x, std::vector<int64_t> sizes) const {
    sizes.insert(sizes.begin(), {x.size(0), x.size(1)});
    return has_padding_ ? at::zeros(sizes, x.options()) : at::empty(sizes, x.options());
  }

  at::Tensor fresh(const DeltaPiece& piece) const {
    const int64_t N = piece.rows * piece.heads * heads_.values_of_key();
    return at::zeros({N, heads_.key_width, heads_.value_width}, decay_.options());
  }

  /// States [N, E, V] before a stretch.
  at::Tensor saved(const DeltaPiece& piece, int64_t stretch) const {
    const int64_t size = piece.rows * elements(piece);
    return saved_.narrow(0, piece.saved + stretch * size, size)
        .view({-1, heads_.key_width, heads_.value_width});
  }

  /// Part of `states` [B, H, E, V] that a piece has.
  at::Tensor of_piece(const at::Tensor& states, const DeltaPiece& piece) const {
    const int64_t r = heads_.values_of_key();
    return states.narrow(0, piece.row, piece.rows).narrow(1, piece.head * r, piece.heads * r);
  }

  static at::Tensor at(const at::Tensor& x, const DeltaPiece& piece, const DeltaPart& stretch) {
    return x.narrow(0, piece.row, piece.rows).narrow(1, stretch.begin, stretch.length);
  }
  at::Tensor columns_at(const at::Tensor& x, const DeltaPiece& piece, const DeltaPart& stretch,
                        int64_t begin, int64_t heads, int64_t width) const {
    return at(x, piece, stretch).narrow(2, begin, heads * width).unflatten(2, {heads, width});
  }
  at::Tensor queries_at(const at::Tensor& x, const DeltaPiece& piece,
                        const DeltaPart& stretch) const {
    const int64_t E = heads_.key_width;
    return columns_at(x, piece, stretch, piece.head * E, piece.heads, E);
  }
  at::Tensor keys_at(const at::Tensor& x, const DeltaPiece& piece, const DeltaPart& stretch) const {
    const int64_t E = heads_.key_width;
    return columns_at(x, piece, stretch, heads_.all_keys() + piece.head * E, piece.heads, E);
  }
  at::Tensor columns_of_values_at(const at::Tensor& x, const DeltaPiece& piece,
                                  const DeltaPart& stretch) const {
    const int64_t r = heads_.values_of_key(), V = heads_.value_width;
    const int64_t begin = 2 * heads_.all_keys() + piece.head * r * V;
    return columns_at(x, piece, stretch, begin, piece.heads * r, V);
  }
  /// Heads of values that a piece has, of x [B, T, H, ...].
  at::Tensor values_at(const at::Tensor& x, const DeltaPiece& piece,
                       const DeltaPart& stretch) const {
    const int64_t r = heads_.values_of_key();
    return at(x, piece, stretch).narrow(2, piece.head * r, piece.heads * r);
  }

  Given read(const DeltaPiece& piece, const DeltaPart& stretch) const {
    Given out;
    out.q = unit_rows(as_chunks(queries_at(mixed_, piece, stretch), stretch), scale_);
    out.k = unit_rows(as_chunks(keys_at(mixed_, piece, stretch), stretch), 1);
    out.in = {out.q.value, out.k.value,
              as_chunks(columns_of_values_at(mixed_, piece, stretch), stretch),
              as_chunks(values_at(decay_, piece, stretch), stretch),
              as_chunks(values_at(beta_, piece, stretch), stretch)};
    return out;
  }

  at::Tensor mixed_, decay_, beta_;
  DeltaHeads heads_;
  double scale_;
  std::vector<DeltaPiece> pieces_;
  bool has_padding_ = false;
  int64_t num_saved_ = 0;
  at::Tensor saved_;
};

}  // namespace

at::Tensor gated_delta_rule(const at::Tensor& mixed, const at::Tensor& decay,
                            const at::Tensor& beta, const DeltaOptions& options) {
  auto rule = std::make_shared<DeltaRule>(mixed, decay, beta, options);
  const bool learns = at::GradMode::is_enabled();
  const auto out = without_grad([&] { return rule->forward(options.state, learns); });
  return with_backward(out, {mixed, decay, beta},
                       [rule](const at::Tensor& grad) { return rule->backward(grad); });
}

at::Tensor delta_decay(const at::Tensor& steps, const ParamPtr& rate, const ParamPtr& bias) {
  const auto speed_of = [rate] { return rate->value().to(at::kFloat).exp().neg_(); };
  const auto shifted =
      without_grad([&] { return steps.detach().to(at::kFloat) + bias->value().to(at::kFloat); });
  const auto out = without_grad([&] { return at::softplus(shifted).mul_(speed_of()); });
  return with_backward(
      out, {steps},
      [=, dtype = steps.scalar_type()](const at::Tensor& grad) -> std::vector<at::Tensor> {
        const int64_t H = shifted.size(-1);
        const auto speed = speed_of();
        const auto back = (grad * speed).mul_(shifted.sigmoid());
        const auto summed = [H](const at::Tensor& x) {
          return x.reshape({-1, H}).sum(0, false, at::kDouble).to(at::kFloat);
        };
        if (rate->spec().trainable)
          rate->add_grad(summed(grad * at::softplus(shifted).mul_(speed)));
        if (bias->spec().trainable) bias->add_grad(summed(back));
        return {back.to(dtype)};
      });
}

}  // namespace convoy::nn
