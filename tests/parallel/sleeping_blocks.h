#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "convoy/nn/block.h"

// Blocks that sleep instead of computing, so that two cores carry many ranks, and keep bytes that
// are only counted.
namespace convoy::parallel {

using Seconds = std::chrono::duration<double>;

/// What a block takes of a row, in seconds: forward, and both halves of its backward; and what it
/// keeps until each half is done, in bytes.
struct Naps {
  double forward = 0.03, input = 0.03, weight = 0.03;
  int64_t until_input = 4'000'000, until_weight = 2'000'000;
};

/// Bytes that a stage keeps.
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

/// The last millisecond passes awake: a machine that is busy lets one oversleep.
inline void nap(double seconds) {
  constexpr double kAwake = 1e-3;
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(Seconds(seconds - kAwake));
  while (std::chrono::steady_clock::now() - begin < Seconds(seconds)) std::this_thread::yield();
}

class Sleep : public torch::autograd::Function<Sleep> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const Naps& naps, double speed, const nn::ParamPtr& weight,
                            Kept* kept) {
    const double times = static_cast<double>(x.size(0)) / speed;
    nap(naps.forward * times);
    context->saved_data["input"] = naps.input * times;
    context->saved_data["weight"] = naps.weight * times;
    context->saved_data["param"] = reinterpret_cast<int64_t>(weight.get());
    context->save_for_backward({kept->hold(naps.until_input), kept->hold(naps.until_weight)});
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    nap(context->saved_data["input"].toDouble());
    auto* weight = reinterpret_cast<nn::Param*>(context->saved_data["param"].toInt());
    const double takes = context->saved_data["weight"].toDouble();
    const auto until_then = context->get_saved_variables()[1];
    weight->add_grad(at::kFloat, [takes, until_then](at::Tensor& out) {
      nap(takes);
      out.zero_();
    });
    return {grads[0], {}, {}, {}, {}};
  }
};

/// x [rows, any] to the same, or to the loss. It has a weight of `elements`, on a rank of some
/// speed.
class Sleeper : public nn::Block {
 public:
  Sleeper(const std::string& name, const Naps& naps, bool last, Kept& kept, int64_t elements = 1,
          double speed = 1)
      : Block(name),
        naps_(naps),
        last_(last),
        speed_(speed),
        kept_(&kept),
        weight_(declare_matrix(name + ".weight", {elements, 1}, nn::Init::zeros())) {}

  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    auto x = in.at("x");
    if (!x.requires_grad()) x = x.detach().requires_grad_(true);
    const auto y = Sleep::apply(x, naps_, speed_, weight_, kept_);
    if (!last_) return {{"x", y}};
    return {{"loss", y.sum()}, {"count", at::ones({}, at::kLong)}};
  }

 private:
  Naps naps_;
  bool last_;
  double speed_;
  Kept* kept_;
  nn::ParamPtr weight_;
};

}  // namespace convoy::parallel
