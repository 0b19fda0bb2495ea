#include "convoy/nn/layers/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/lanes.h"
#include "convoy/base/random.h"
#include "convoy/comm/device.h"
#include "convoy/nn/layers/dropout_device.h"
#include "convoy/nn/node.h"

namespace convoy::nn {

namespace {

CONVOY_CLONES void fill_chunk(uint64_t chunk, uint32_t sample_low, uint32_t sample_high,
                              uint32_t key_low, uint32_t key_high, uint32_t threshold, float scale,
                              float* out) {
  uint32_t words[4][kDrawLanes];
  for (int i = 0; i < kDrawLanes; ++i) {
    words[0][i] = static_cast<uint32_t>(chunk) * kDrawLanes + static_cast<uint32_t>(i);
    words[1][i] = sample_low;
    words[2][i] = sample_high;
    words[3][i] = static_cast<uint32_t>(chunk * kDrawLanes >> 32);
  }
  philox_lanes(words, key_low, key_high);
  for (int w = 0; w < 4; ++w) {
    for (int i = 0; i < kDrawLanes; ++i) {
      uint32_t word = words[w][i];
      out[(2 * w) * kDrawLanes + i] = (word & 0xFFFFu) >= threshold ? scale : 0.0f;
      out[(2 * w + 1) * kDrawLanes + i] = (word >> 16) >= threshold ? scale : 0.0f;
    }
  }
}

/// One row's stream of mask values, read in ascending order of position.
class RowStream {
 public:
  RowStream(const MaskStream& mask, uint64_t sample) : mask_(mask), sample_(sample) {}

  /// Copies positions [begin, begin + count) to `out`.
  void read(int64_t begin, int64_t count, float* out) {
    for (int64_t at = begin; at < begin + count;) {
      int64_t chunk = at / kDrawChunk;
      int64_t offset = at % kDrawChunk;
      int64_t length = std::min(kDrawChunk - offset, begin + count - at);
      if (length == kDrawChunk) {
        fill(chunk, out);
      } else {
        if (chunk != held_) fill(held_ = chunk, values_.data());
        std::copy_n(values_.data() + offset, length, out);
      }
      out += length;
      at += length;
    }
  }

 private:
  void fill(int64_t chunk, float* out) const {
    fill_chunk(static_cast<uint64_t>(chunk), static_cast<uint32_t>(sample_),
               static_cast<uint32_t>(sample_ >> 32), static_cast<uint32_t>(mask_.key),
               static_cast<uint32_t>(mask_.key >> 32), mask_.threshold, mask_.scale, out);
  }

  MaskStream mask_;
  uint64_t sample_;
  int64_t held_ = -1;
  std::array<float, kDrawChunk> values_;
};

}  // namespace

MaskStream mask_stream(double rate, const Context& context, int64_t site) {
  uint64_t key = mix64(context.seed);
  for (int64_t part : {context.step, context.block, site}) {
    key = hash_combine(key, static_cast<uint64_t>(part));
  }
  const auto threshold = static_cast<uint32_t>(std::lround(rate * 65536.0));
  return {key, threshold, static_cast<float>(65536.0 / (65536.0 - threshold))};
}

at::Tensor samples_of(const Context& context, int64_t rows) {
  internal_check(context.samples.defined() && context.samples.numel() == rows, "nn",
                 "dropout of {} rows without as many sample indices", rows);
  return comm::download(context.samples).to(at::kLong).contiguous();
}

at::Tensor dropout_mask(at::IntArrayRef sizes, double rate, const Context& context, int64_t site,
                        at::IntArrayRef extents, at::IntArrayRef origin, at::Device device) {
  const int64_t rows = sizes[0];
  auto samples = samples_of(context, rows);
  auto inner = sizes.slice(1);
  auto bounds = extents.empty() ? inner : extents;
  const auto stream = mask_stream(rate, context, site);
  if (!device.is_cpu()) return device_mask(sizes, bounds, origin, samples, stream, device);
  auto mask = at::empty(sizes, at::kFloat);
  const int64_t* sample = samples.data_ptr<int64_t>();
  float* out = mask.data_ptr<float>();

  // A row's elements lie in lines along the last dimension; `starts` holds each line's position.
  const int64_t line = inner.empty() ? 1 : inner.back();
  auto first = [&](size_t dim) { return origin.empty() ? 0 : origin[dim]; };
  std::vector<int64_t> starts{inner.empty() ? 0 : first(0)};
  for (size_t dim = 0; dim + 1 < inner.size(); ++dim) {
    std::vector<int64_t> next;
    for (int64_t start : starts) {
      for (int64_t i = 0; i < inner[dim]; ++i) {
        next.push_back((start + i) * bounds[dim + 1] + first(dim + 1));
      }
    }
    starts = std::move(next);
  }

  const int64_t row_size = static_cast<int64_t>(starts.size()) * line;
  at::parallel_for(0, rows, 1 + 32768 / (row_size + 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      RowStream values(stream, static_cast<uint64_t>(sample[row]));
      float* to = out + row * row_size;
      for (int64_t start : starts) {
        values.read(start, line, to);
        to += line;
      }
    }
  });
  return mask;
}

at::Tensor mask_of_tokens(const at::Tensor& tokens, int64_t length, int64_t D, double rate,
                          const Context& context, int64_t site) {
  const auto samples = comm::download(context.samples).to(at::kLong).contiguous();
  const auto places = tokens.contiguous();
  const auto stream = mask_stream(rate, context, site);
  auto mask = at::empty({places.numel(), D}, at::kFloat);
  const auto* sample = samples.const_data_ptr<int64_t>();
  const auto* place = places.const_data_ptr<int64_t>();
  auto* out = mask.mutable_data_ptr<float>();
  at::parallel_for(0, places.numel(), 1 + 32768 / (D + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      RowStream values(stream, static_cast<uint64_t>(sample[place[i] / length]));
      values.read(place[i] % length * D, D, out + i * D);
    }
  });
  return mask;
}

at::Tensor dropout(const at::Tensor& x, double rate, const Context& context, int64_t site,
                   at::IntArrayRef extents, at::IntArrayRef origin) {
  if (rate == 0 || context.mode != Mode::Train) return x;
  auto mask = dropout_mask(x.sizes(), rate, context, site, extents, origin, x.device());
  // The product is fp32 and rounded once: 1 / (1 - rate) in 16 bits would shift the mean.
  return (x * mask).to(x.scalar_type());
}

namespace {

/// Window of this rank's tokens: some rows, and of each the positions [first, first + length) among
/// those that the rank has.
struct Window {
  int64_t row, rows;
  int64_t first, length;
};

/// Mask of a window of x [..., D]: [rows x length, D].
at::Tensor mask_of_window(const Window& window, const at::Tensor& x, double rate,
                          const Context& context, int64_t site, const ContextRanks& positions) {
  const auto& [row, rows, first, length] = window;
  const int64_t D = x.size(-1);
  auto some = context;
  some.samples = context.samples.narrow(0, row, rows);
  std::vector<at::Tensor> parts;
  int64_t at = 0;  // of the stretch among the positions here
  for (const auto& stretch : positions.stretches()) {
    const int64_t begin = std::max(first, at);
    const int64_t count = std::min(first + length, at + stretch.length) - begin;
    if (count > 0) {
      parts.push_back(dropout_mask({rows, count, D}, rate, some, site, {0, D},
                                   {stretch.begin + begin - at, 0}, x.device()));
    }
    at += stretch.length;
  }
  return at::cat(parts, 1).view({-1, D});
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double rate, const Context& context, int64_t site,
                   const TensorRanks& ranks) {
  if (ranks.has_all()) return dropout(x, rate, context, site);
  if (rate == 0 || context.mode != Mode::Train) return x;
  const int64_t T = ranks.length(), D = x.size(-1), end = ranks.begin() + ranks.size();
  std::vector<at::Tensor> parts{at::empty({0, D}, x.options().dtype(at::kFloat))};
  for (int64_t at = ranks.begin(); at < end;) {
    // The rest of a row; or as many whole ones as there are.
    const int64_t row = at / T, first = at % T;
    const int64_t rows = first == 0 ? std::max<int64_t>(1, (end - at) / T) : 1;
    const int64_t length = std::min(T - first, end - at);
    parts.push_back(
        mask_of_window({row, rows, first, length}, x, rate, context, site, ranks.positions()));
    at += rows * length;
  }
  return (x * at::cat(parts).view(x.sizes())).to(x.scalar_type());
}

namespace {

/// Sum of x and `added` after dropout in one kernel; undefined where no kernel supports the
/// tensors.
at::Tensor add_dropped_at_once(const at::Tensor& x, const at::Tensor& added, double rate,
                               const Context& context, int64_t site) {
  const auto dtype = added.scalar_type();
  const bool fits = x.is_cuda() && x.sizes() == added.sizes() && x.scalar_type() == at::kFloat &&
                    (dtype == at::kFloat || dtype == at::kBFloat16);
  if (!fits) return {};
  const auto samples = samples_of(context, x.size(0));
  const auto stream = mask_stream(rate, context, site);
  const auto out = without_grad(
      [&] { return add_dropped_on_device(x.detach(), added.detach(), samples, stream); });
  if (!out) return {};
  return with_backward(*out, {x, added}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    if (const auto dropped = dropped_on_device(grad, samples, stream)) {
      return {grad, dropped->to(dtype)};
    }
    const auto mask =
        device_mask(grad.sizes(), grad.sizes().slice(1), {}, samples, stream, grad.device());
    return {grad, (grad * mask).to(dtype)};
  });
}

}  // namespace

at::Tensor add_dropped(const at::Tensor& x, const at::Tensor& added, double rate,
                       const Context& context, int64_t site, const TensorRanks& ranks) {
  if (rate != 0 && context.mode == Mode::Train && ranks.has_all()) {
    const auto out = add_dropped_at_once(x, added, rate, context, site);
    if (out.defined()) return out;
  }
  return x + dropout(added, rate, context, site, ranks);
}

}  // namespace convoy::nn
