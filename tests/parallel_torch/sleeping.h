#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>

#include "convoy/nn/param.h"

// Blocks that sleep instead of computing, so that two cores carry some ranks, and keep bytes that
// are only counted.
namespace convoy::parallel {

/// What a block takes, in seconds: forward, and both halves of its backward; and what it keeps
/// until each half is done, in bytes.
struct Naps {
  double forward = 0.03, input = 0.03, weight = 0.03;
  int64_t until_input = 4'000'000, until_weight = 2'000'000;
};

/// Bytes that a rank keeps.
class Kept {
 public:
  /// Something of so many bytes, as far as this counts, for as long as the tensor lives.
  at::Tensor hold(int64_t bytes) {
    static float nothing = 0;
    const int64_t now = bytes_ += bytes;
    for (int64_t most = peak_; now > most && !peak_.compare_exchange_weak(most, now);) continue;
    return at::from_blob(&nothing, {1}, [this, bytes](void*) { bytes_ -= bytes; });
  }
  int64_t peak() const { return peak_; }

 private:
  std::atomic<int64_t> bytes_ = 0, peak_ = 0;
};

/// [B, width] of [B, any number].
class Sleep : public torch::autograd::Function<Sleep> {
 public:
  using Nap = void (*)(double seconds);

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            int64_t width, const Naps& naps, const nn::ParamPtr& weight, Kept* kept,
                            Nap nap) {
    nap(naps.forward);
    context->saved_data["input"] = naps.input;
    context->saved_data["weight"] = naps.weight;
    context->saved_data["param"] = reinterpret_cast<int64_t>(weight.get());
    context->saved_data["nap"] = reinterpret_cast<int64_t>(nap);
    context->saved_data["width"] = x.size(1);
    context->save_for_backward({kept->hold(naps.until_input), kept->hold(naps.until_weight)});
    return at::ones({x.size(0), width});
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    auto& saved = context->saved_data;
    const auto nap = reinterpret_cast<Nap>(saved["nap"].toInt());
    nap(saved["input"].toDouble());
    auto* weight = reinterpret_cast<nn::Param*>(saved["param"].toInt());
    const double takes = saved["weight"].toDouble();
    const auto until_then = context->get_saved_variables()[1];
    weight->add_grad(at::kFloat, [nap, takes, until_then](at::Tensor& out, bool) {
      nap(takes);
      out.zero_();
    });
    return {at::zeros({grads[0].size(0), saved["width"].toInt()}), {}, {}, {}, {}, {}};
  }
};

}  // namespace convoy::parallel
