#include "convoy/nn/layers/activation.h"

#include <ATen/ATen.h>

#include "convoy/base/error.h"
#include "convoy/base/lanes.h"
#include "convoy/nn/layers/activation_device.h"
#include "convoy/nn/node.h"
#include "convoy/nn/shapes_only.h"

namespace convoy::nn {

namespace {

using lanes::Bf16;
using lanes::Floats;

/// Computes the factor s(x) of an activation x s(x), and its slope.
[[gnu::always_inline]] inline void weigh(const Curve& curve, const Floats& x, Floats& s,
                                         Floats& slope) {
  if (curve.normal) {
    // Tail of the normal distribution beyond |x|: e^(-x^2 / 2) times a polynomial of 1 / (1 + 0.26
    // |x|), fitted to a relative error of 6e-9.
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
  constexpr float kFar = 1e30f;  // of the square: cubes stay finite
  Floats square = x * x;
  square = square > kFar ? Floats{} + kFar : square;
  const Floats at = x * (curve.linear + curve.cubic * square);
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
    lanes::store(grad * (x * s), at.times_out + i, count);
  }
  lanes::store(out, at.out + i, count);
}

template <class T>
[[gnu::always_inline]] inline void all(const Curve& curve, const Memory<T>& at, int64_t begin,
                                       int64_t end) {
  lanes::each(begin, end, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
    at.grad == nullptr ? forward_some(curve, at, i, count) : backward_some(curve, at, i, count);
  });
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
  in_parallel(0, x.numel(), 1 << 14,
              [&](int64_t begin, int64_t end) { run(curve, memory, begin, end); });
}

Curve curve_of(const std::string& kind) {
  if (kind == "gelu") return {.normal = true};
  if (kind == "quick_gelu") return {.linear = 1.702f};
  if (kind == "silu" || kind == "swish") return {};
  // 1/2 (1 + tanh y) is the sigmoid of 2 y; y = sqrt(2 / pi) (x + 0.044715 x^3).
  return {.linear = 1.59576912f, .cubic = 0.0713548163f};
}

using Tensors = std::vector<at::Tensor>;

/// Returns the activation without `grad`, else the gradients of x and of `times`.
Tensors computed(const std::string& kind, const at::Tensor& x, const at::Tensor& times,
                 const at::Tensor& grad) {
  const auto curve = curve_of(kind);
  auto out = at::empty_like(x);
  auto times_out = times.defined() && grad.defined() ? at::empty_like(x) : at::Tensor();
  if (x.scalar_type() == at::kFloat) {
    run<float>(curve, x, times, grad, out, times_out);
  } else {
    run<Bf16>(curve, x, times, grad, out, times_out);
  }
  return {out, times_out};
}

/// Computes by torch's operations, where there is no kernel here.
Tensors computed_by_torch(const std::string& kind, const at::Tensor& x, const at::Tensor& times,
                          const at::Tensor& grad) {
  const auto approximation = kind == "gelu" ? "none" : "tanh";
  at::Tensor out, back;
  const auto reaching = grad.defined() && times.defined() ? grad * times : grad;
  if (kind == "relu") {
    out = at::relu(x);
    if (grad.defined()) back = at::threshold_backward(reaching, x, 0);
  } else if (kind == "tanh") {
    out = at::tanh(x);
    if (grad.defined()) back = at::tanh_backward(reaching, out);
  } else if (kind == "silu" || kind == "swish") {
    out = at::silu(x);
    if (grad.defined()) back = at::silu_backward(reaching, x);
  } else if (kind == "quick_gelu") {
    const auto share = at::sigmoid(1.702 * x);
    out = x * share;
    if (grad.defined()) back = reaching * (share + 1.702 * out * (1 - share));
  } else {
    out = at::gelu(x, approximation);
    if (grad.defined()) back = at::gelu_backward(reaching, x, approximation);
  }
  if (!grad.defined()) return {times.defined() ? out.mul_(times) : out};
  return {back, times.defined() ? out.mul_(grad) : at::Tensor()};
}

/// Computes on a GPU, by a kernel where torch compiles one.
Tensors computed_on_device(const std::string& kind, const at::Tensor& x, const at::Tensor& times,
                           const at::Tensor& grad) {
  auto out = activate_on_device(curve_of(kind), x, times, grad);
  return out.empty() ? computed_by_torch(kind, x, times, grad) : out;
}

using Compute = Tensors (*)(const std::string&, const at::Tensor&, const at::Tensor&,
                            const at::Tensor&);

Compute computes(const std::string& kind, const at::Tensor& x) {
  const auto dtype = x.scalar_type();
  if (kind == "relu" || kind == "tanh" || dtype == at::kDouble) return computed_by_torch;
  if (x.is_cuda()) return computed_on_device;
  return x.is_cpu() && dtype != at::kHalf ? computed : computed_by_torch;
}

/// Returns x on a GPU, whose kernels read any strides, and contiguous x on the host.
at::Tensor laid_out(const at::Tensor& x) {
  return x.is_cuda() ? x : x.contiguous();
}

}  // namespace

const std::vector<std::string>& activations() {
  static const std::vector<std::string> kNames{"gelu",      "gelu_new", "gelu_pytorch_tanh",
                                               "gelu_fast", "relu",     "silu",
                                               "swish",     "tanh",     "quick_gelu"};
  return kNames;
}

at::Tensor activate(const std::string& kind, const at::Tensor& x, const at::Tensor& times) {
  const auto input = laid_out(x.detach());
  const auto factor = times.defined() ? laid_out(times.detach()) : at::Tensor();
  if (times.defined()) {
    internal_check(times.sizes() == x.sizes() && times.scalar_type() == x.scalar_type() &&
                       times.device() == x.device(),
                   "nn", "an activation's factor is unlike it");
  }
  const auto compute = computes(kind, x);
  const auto out = without_grad([&] { return compute(kind, input, factor, {})[0]; });
  return with_backward(out, {x, times}, [=](const at::Tensor& grad) {
    return compute(kind, input, factor, laid_out(grad));
  });
}

std::vector<at::Tensor> activation_grads(const std::string& kind, const at::Tensor& x,
                                         const at::Tensor& times, const at::Tensor& grad) {
  return without_grad(
      [&] { return computes(kind, x)(kind, laid_out(x), laid_out(times), laid_out(grad)); });
}

}  // namespace convoy::nn
