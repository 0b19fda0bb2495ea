#include "convoy/nn/activation.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "convoy/base/lanes.h"
#include "convoy/nn/node.h"

namespace convoy::nn {

namespace {

using lanes::Bf16;
using lanes::Floats;
using lanes::kLanes;

/// Of x s(x): s is a sigmoid of linear x + cubic x^3, or the normal distribution's.
struct Curve {
  bool normal = false;
  float linear = 1, cubic = 0;
};

/// Finds s(x) and its slope.
[[gnu::always_inline]] inline void weigh(const Curve& curve, const Floats& x, Floats& s,
                                         Floats& slope) {
  if (curve.normal) {
    // Of the tail beyond |x|: e^(-x^2 / 2) times a polynomial of 1 / (1 + 0.26 |x|), fitted to a
    // relative 6e-9.
    const Floats far = x < 0 ? -x : x, u = 1 / (1 + 0.26f * far);
    Floats e = -0.5f * x * x;
    lanes::exponentiate(e);
    Floats tail = u * 0.0339129753f - 0.17044434f;
    tail = tail * u + 0.290799916f;
    tail = tail * u - 0.200556666f;
    tail = tail * u + 0.199894637f;
    tail = tail * u + 0.0313342959f;
    tail = tail * u + 0.109434895f;
    tail = tail * u + 0.101726167f;
    tail = tail * u + 0.103905216f;
    tail = (tail * u - 7.08838934e-6f) * e;
    s = x < 0 ? tail : 1 - tail;
    slope = e * 0.398942280f;
    return;
  }
  const Floats square = x * x, at = x * (curve.linear + curve.cubic * square);
  Floats e = at < 0 ? at : -at;
  lanes::exponentiate(e);
  const Floats near = 1 / (1 + e), far = e * near;
  s = at < 0 ? far : near;
  slope = near * far * (curve.linear + 3 * curve.cubic * square);
}

template <class T>
struct Memory {
  const T *x, *times, *grad;  // times: null for ones
  T *out, *times_out;
};

template <class T>
[[gnu::always_inline]] inline void forward_some(const Curve& curve, const Memory<T>& at, int64_t i,
                                                int64_t count) {
  Floats x, s, slope, times;
  lanes::load(at.x + i, x, count);
  weigh(curve, x, s, slope);
  Floats out = x * s;
  if (at.times != nullptr) {
    lanes::load(at.times + i, times, count);
    out *= times;
  }
  lanes::store(out, at.out + i, count);
}

template <class T>
[[gnu::always_inline]] inline void backward_some(const Curve& curve, const Memory<T>& at, int64_t i,
                                                 int64_t count) {
  Floats x, s, slope, grad, times;
  lanes::load(at.x + i, x, count);
  lanes::load(at.grad + i, grad, count);
  weigh(curve, x, s, slope);
  Floats out = grad * (s + x * slope);
  if (at.times != nullptr) {
    lanes::load(at.times + i, times, count);
    out *= times;
    lanes::store(grad * x * s, at.times_out + i, count);
  }
  lanes::store(out, at.out + i, count);
}

template <class T>
[[gnu::always_inline]] inline void all(const Curve& curve, const Memory<T>& at, int64_t begin,
                                       int64_t end) {
  for (; begin + kLanes <= end; begin += kLanes) {
    at.grad == nullptr ? forward_some(curve, at, begin, kLanes)
                       : backward_some(curve, at, begin, kLanes);
  }
  if (begin == end) return;
  at.grad == nullptr ? forward_some(curve, at, begin, end - begin)
                     : backward_some(curve, at, begin, end - begin);
}

CONVOY_CLONES void run(const Curve& curve, const Memory<float>& at, int64_t begin, int64_t end) {
  all(curve, at, begin, end);
}

CONVOY_CLONES void run(const Curve& curve, const Memory<Bf16>& at, int64_t begin, int64_t end) {
  all(curve, at, begin, end);
}

template <class T>
void run(const Curve& curve, const at::Tensor& x, const at::Tensor& times, const at::Tensor& grad,
         at::Tensor& out, at::Tensor& times_out) {
  auto read = [](const at::Tensor& t) {
    return t.defined() ? static_cast<const T*>(t.const_data_ptr()) : nullptr;
  };
  auto write = [](at::Tensor& t) {
    return t.defined() ? static_cast<T*>(t.mutable_data_ptr()) : nullptr;
  };
  const Memory<T> memory{read(x), read(times), read(grad), write(out), write(times_out)};
  at::parallel_for(0, x.numel(), 1 << 14,
                   [&](int64_t begin, int64_t end) { run(curve, memory, begin, end); });
}

/// {out} without `grad`, else the gradients of x and of `times`.
std::vector<at::Tensor> computed(const Curve& curve, const at::Tensor& x, const at::Tensor& times,
                                 const at::Tensor& grad) {
  auto out = at::empty_like(x);
  auto times_out = times.defined() && grad.defined() ? at::empty_like(x) : at::Tensor();
  if (x.scalar_type() == at::kFloat) {
    run<float>(curve, x, times, grad, out, times_out);
  } else {
    run<Bf16>(curve, x, times, grad, out, times_out);
  }
  return {out, times_out};
}

at::Tensor plain(const std::string& kind, const at::Tensor& x) {
  if (kind == "relu") return at::relu(x);
  if (kind == "silu" || kind == "swish") return at::silu(x);
  if (kind == "tanh") return at::tanh(x);
  if (kind == "quick_gelu") return x * at::sigmoid(1.702 * x);
  return at::gelu(x, kind == "gelu" ? "none" : "tanh");
}

Curve curve_of(const std::string& kind) {
  if (kind == "gelu") return {.normal = true};
  if (kind == "quick_gelu") return {.linear = 1.702f};
  if (kind == "silu" || kind == "swish") return {};
  // 1/2 (1 + tanh y) is the sigmoid of 2 y; y = sqrt(2 / pi) (x + 0.044715 x^3).
  return {.linear = 1.59576912f, .cubic = 0.0713548163f};
}

}  // namespace

const std::vector<std::string>& activations() {
  static const std::vector<std::string> kNames{"gelu",      "gelu_new", "gelu_pytorch_tanh",
                                               "gelu_fast", "relu",     "silu",
                                               "swish",     "tanh",     "quick_gelu"};
  return kNames;
}

at::Tensor activate(const std::string& kind, const at::Tensor& x, const at::Tensor& times) {
  const bool here =
      x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
  if (!here || kind == "relu" || kind == "tanh") {
    const auto out = plain(kind, x);
    return times.defined() ? out * times : out;
  }
  const auto curve = curve_of(kind);
  const auto input = x.detach().contiguous();
  const auto factor = times.defined() ? times.detach().contiguous() : at::Tensor();
  const auto out = without_grad([&] { return computed(curve, input, factor, {})[0]; });
  return with_backward(out, {x, times}, [=](const at::Tensor& grad) {
    return computed(curve, input, factor, grad.contiguous());
  });
}

}  // namespace convoy::nn
