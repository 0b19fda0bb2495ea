#include "convoy/nn/delta/causal_conv.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/base/lanes.h"
#include "convoy/comm/device.h"
#include "convoy/nn/node.h"
#include "convoy/nn/shapes_only.h"

// Shapes: B rows, T positions, M channels, W width of the convolution.
namespace convoy::nn {

namespace {

using lanes::Bf16;
using lanes::count_at;
using lanes::Floats;
using lanes::kLanes;

// Positions whose gradients of the weight are added up before those of others.
constexpr int64_t kConvPiece = 256;

template <class T>
struct ConvMemory {
  const T *x, *grad;              // [positions, M]
  const float* weight;            // [W, M]
  const int32_t *before, *after;  // positions that one sees before it, and by which it is seen
  T* out;
  float* weight_grads;  // [pieces, W, M]
  int64_t M, W;
};

template <class T>
[[gnu::always_inline]] inline void conv_forward(const ConvMemory<T>& at, int64_t begin,
                                                int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t m = 0; m < at.M; m += kLanes) {
      const int64_t count = count_at(m, at.M);
      Floats x, weight, sum{};
      for (int64_t back = at.before[t]; back >= 0; --back) {
        lanes::load(at.x + (t - back) * at.M + m, x, count);
        lanes::load(at.weight + (at.W - 1 - back) * at.M + m, weight, count);
        sum += x * weight;
      }
      lanes::store(sum, at.out + t * at.M + m, count);
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void conv_backward(const ConvMemory<T>& at, int64_t begin,
                                                 int64_t end, float* weight_grad) {
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t m = 0; m < at.M; m += kLanes) {
      const int64_t count = count_at(m, at.M);
      Floats x, weight, grad, total, sum{};
      for (int64_t on = 0; on <= at.after[t]; ++on) {
        lanes::load(at.grad + (t + on) * at.M + m, grad, count);
        lanes::load(at.weight + (at.W - 1 - on) * at.M + m, weight, count);
        sum += grad * weight;
      }
      lanes::load(at.grad + t * at.M + m, grad, count);
      for (int64_t back = at.before[t]; back >= 0; --back) {
        float* to = weight_grad + (at.W - 1 - back) * at.M + m;
        lanes::load(at.x + (t - back) * at.M + m, x, count);
        lanes::load(to, total, count);
        lanes::store(total + grad * x, to, count);
      }
      lanes::store(sum, at.out + t * at.M + m, count);
    }
  }
}

CONVOY_CLONES void convolve(const ConvMemory<float>& at, int64_t begin, int64_t end) {
  conv_forward(at, begin, end);
}
CONVOY_CLONES void convolve(const ConvMemory<Bf16>& at, int64_t begin, int64_t end) {
  conv_forward(at, begin, end);
}
CONVOY_CLONES void convolve_back(const ConvMemory<float>& at, int64_t begin, int64_t end,
                                 float* weight_grad) {
  conv_backward(at, begin, end, weight_grad);
}
CONVOY_CLONES void convolve_back(const ConvMemory<Bf16>& at, int64_t begin, int64_t end,
                                 float* weight_grad) {
  conv_backward(at, begin, end, weight_grad);
}

/// Numbers of positions before each that it sees, and after each that see it, [B, T] int32.
struct Reach {
  at::Tensor before, after;

  Reach(int64_t B, int64_t T, int64_t W, const std::vector<DocumentPlace>& documents) {
    before = at::empty({B, T}, at::kInt);
    after = at::empty({B, T}, at::kInt);
    const auto fill = [&](const DocumentPlace& place) {
      auto* first = before.mutable_data_ptr<int32_t>() + place.row * T + place.begin;
      auto* last = after.mutable_data_ptr<int32_t>() + place.row * T + place.begin;
      for (int64_t t = 0; t < place.length; ++t) {
        first[t] = static_cast<int32_t>(std::min(t, W - 1));
        last[t] = static_cast<int32_t>(std::min(place.length - 1 - t, W - 1));
      }
    };
    for (const auto& place : documents) fill(place);
    for (int64_t row = 0; row < B && documents.empty(); ++row) fill({row, 0, T});
  }
};

class CausalConv {
 public:
  CausalConv(const at::Tensor& x, ParamPtr weight, const std::vector<DocumentPlace>& documents)
      : x_(x.detach().contiguous()),
        weight_(std::move(weight)),
        width_(weight_->value().size(-1)),
        reach_(x.size(0), x.size(1), width_, documents) {
    internal_check(weight_->value().size(0) == x.size(2), "nn",
                   "a convolution's weight is of another width");
    const auto dtype = x.scalar_type();
    by_lanes_ = x.is_cpu() && (dtype == at::kFloat || dtype == at::kBFloat16);
    if (by_lanes_) return;
    reach_.before = comm::upload(reach_.before, x.device());
    reach_.after = comm::upload(reach_.after, x.device());
  }

  at::Tensor forward() const {
    auto out = at::empty_like(x_);
    const auto weights = taps();
    if (by_lanes_) {
      x_.scalar_type() == at::kFloat ? forward_by_lanes<float>(weights, out)
                                     : forward_by_lanes<Bf16>(weights, out);
      return out;
    }
    auto sum = x_.to(at::kFloat) * weights[width_ - 1];
    for (int64_t back = 1; back < std::min(width_, length() + 1); ++back) {
      sum.add_(seen(x_, back) * weights[width_ - 1 - back]);
    }
    return out.copy_(sum);
  }

  at::Tensor backward(const at::Tensor& given) const {
    const auto grad = given.contiguous();
    auto out = at::empty_like(x_);
    const auto weights = taps();
    at::Tensor of_weight;
    if (by_lanes_) {
      of_weight = x_.scalar_type() == at::kFloat ? backward_by_lanes<float>(weights, grad, out)
                                                 : backward_by_lanes<Bf16>(weights, grad, out);
    } else {
      const auto wide = grad.to(at::kFloat);
      auto sum = wide * weights[width_ - 1];
      std::vector<at::Tensor> parts(static_cast<size_t>(width_), at::zeros_like(weights[0]));
      parts.back() = (wide * x_).sum({0, 1});
      for (int64_t back = 1; back < std::min(width_, length() + 1); ++back) {
        const auto tap = weights[width_ - 1 - back];
        parts[static_cast<size_t>(width_ - 1 - back)] = (wide * seen(x_, back)).sum({0, 1});
        sum.add_(seers(wide, back) * tap);
      }
      out.copy_(sum);
      of_weight = at::stack(parts);
    }
    weight_->add_grad(of_weight.t().reshape(weight_->shape()));
    return out;
  }

 private:
  int64_t length() const { return x_.size(1); }
  /// The weight as [W, M] fp32.
  at::Tensor taps() const {
    return weight_->value().to(at::kFloat).view({-1, width_}).t().contiguous();
  }

  /// Inputs so many positions before each, fp32; zeros where they are not seen.
  at::Tensor seen(const at::Tensor& x, int64_t back) const {
    const auto moved = at::constant_pad_nd(x.narrow(1, 0, length() - back), {0, 0, back, 0});
    return moved.to(at::kFloat) * (reach_.before >= back).unsqueeze(2);
  }
  /// Gradients so many positions after each; zeros where they do not see it.
  at::Tensor seers(const at::Tensor& grad, int64_t on) const {
    const auto moved = at::constant_pad_nd(grad.narrow(1, on, length() - on), {0, 0, 0, on});
    return moved * (reach_.after >= on).unsqueeze(2);
  }

  template <class T>
  ConvMemory<T> memory(const at::Tensor& weights, at::Tensor& out) const {
    return {.x = static_cast<const T*>(x_.const_data_ptr()),
            .grad = nullptr,
            .weight = weights.const_data_ptr<float>(),
            .before = reach_.before.const_data_ptr<int32_t>(),
            .after = reach_.after.const_data_ptr<int32_t>(),
            .out = static_cast<T*>(out.mutable_data_ptr()),
            .weight_grads = nullptr,
            .M = x_.size(2),
            .W = width_};
  }

  template <class T>
  void forward_by_lanes(const at::Tensor& weights, at::Tensor& out) const {
    const auto at = memory<T>(weights, out);
    in_parallel(0, x_.size(0) * length(), 16,
                [&](int64_t begin, int64_t end) { convolve(at, begin, end); });
  }

  template <class T>
  at::Tensor backward_by_lanes(const at::Tensor& weights, const at::Tensor& grad,
                               at::Tensor& out) const {
    auto at = memory<T>(weights, out);
    at.grad = static_cast<const T*>(grad.const_data_ptr());
    const int64_t positions = x_.size(0) * length(), pieces = at::divup(positions, kConvPiece);
    auto sums = at::zeros({pieces, width_, x_.size(2)}, weights.options());
    at.weight_grads = sums.mutable_data_ptr<float>();
    in_parallel(0, pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t piece = begin; piece < end; ++piece) {
        convolve_back(at, piece * kConvPiece, std::min(positions, (piece + 1) * kConvPiece),
                      at.weight_grads + piece * at.W * at.M);
      }
    });
    return sums.sum(0);
  }

  at::Tensor x_;
  ParamPtr weight_;
  int64_t width_;
  Reach reach_;
  bool by_lanes_ = false;
};

}  // namespace

at::Tensor causal_conv(const at::Tensor& x, const ParamPtr& weight,
                       const std::vector<DocumentPlace>& documents, const at::Tensor& tail) {
  if (tail.defined()) {
    internal_check(documents.empty(), "nn", "documents with a convolution's cache");
    const auto all = at::cat(std::vector{tail, x.detach()}, 1);
    const auto out = without_grad([&] { return CausalConv(all, weight, {}).forward(); });
    return out.narrow(1, tail.size(1), x.size(1));
  }
  auto conv = std::make_shared<CausalConv>(x, weight, documents);
  const auto out = without_grad([&] { return conv->forward(); });
  return with_backward(
      out, {x}, [conv](const at::Tensor& grad) { return std::vector{conv->backward(grad)}; });
}

}  // namespace convoy::nn
