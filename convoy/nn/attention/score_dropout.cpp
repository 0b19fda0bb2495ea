#include "convoy/nn/attention/score_dropout.h"

#include <ATen/ATen.h>

#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/dropout_device.h"

namespace convoy::nn {

namespace {

at::Tensor in_chunks(const at::Tensor& weights, const at::Tensor& drops) {
  return weights.view(drops.sizes());
}

}  // namespace

ScoreDropout::ScoreDropout(const ScorePlace& place, double rate, const Context& context,
                           int64_t site, at::Device device) {
  if (rate == 0) return;
  if (!device.is_cpu()) {
    const auto stream = mask_stream(rate, context, site);
    const auto samples = samples_of(context, place.sizes[0]);
    if (auto drops =
            drops_on_device(place.sizes, place.bounds, place.origin, samples, stream, device)) {
      drops_ = *drops;
      factor_ = stream.scale;
      return;
    }
  }
  mask_ = dropout_mask(place.sizes, rate, context, site, place.bounds, place.origin, device);
}

at::Tensor ScoreDropout::kept(const at::Tensor& weights) const {
  if (mask_.defined()) return weights * mask_;
  if (!drops_.defined()) return weights;
  // Into memory of its own: torch's would lie as `drops_` does.
  auto out = at::empty_like(weights);
  auto chunks = in_chunks(out, drops_);
  at::where_out(chunks, drops_, at::zeros({}, weights.options()), in_chunks(weights, drops_));
  return out;
}

void ScoreDropout::drop(at::Tensor& weights) const {
  if (mask_.defined()) weights.mul_(mask_);
  if (drops_.defined()) in_chunks(weights, drops_).masked_fill_(drops_, 0);
}

}  // namespace convoy::nn
