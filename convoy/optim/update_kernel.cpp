#include "convoy/optim/update_kernel.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "convoy/comm/to_host.h"
#include "convoy/gpu/agreement.h"
#include "convoy/optim/stochastic_rounding.h"

namespace convoy::optim {

namespace {

constexpr int64_t kChunk = 4096;  // elements of a block, as update.cu has it

constexpr const char* kText =
#include <convoy/optim/update_cu.h>
    ;

/// Segment of a whole range.
UpdateSegment segment_of(const FlatRange& range, const StepNumbers& numbers) {
  const auto state = [&](size_t k) {
    return k < range.states.size() ? range.states[k].mutable_data_ptr() : nullptr;
  };
  return {.weights = range.weights.mutable_data_ptr<float>(),
          .grads = range.grads.const_data_ptr<float>(),
          .first = state(0),
          .second = state(1),
          .rounded = range.rounded.defined() ? range.rounded.mutable_data_ptr() : nullptr,
          .length = range.weights.numel(),
          .kept = static_cast<float>(1 - numbers.learning_rate * range.weight_decay)};
}

/// Segment of a span of a range, whose elements have random words of their own.
UpdateSegment segment_of(const FlatRange& range, const StepNumbers& numbers, const Span& span) {
  auto out = segment_of(range, numbers);
  const auto place = [&](const at::Tensor& tensor, void* begin) -> void* {
    return begin == nullptr ? nullptr
                            : static_cast<char*>(begin) +
                                  span.place * static_cast<int64_t>(tensor.element_size());
  };
  out.weights += span.place;
  out.grads += span.place;
  out.first = place(range.states[0], out.first);
  out.second = place(range.states[1], out.second);
  if (out.rounded != nullptr) out.rounded = place(range.rounded, out.rounded);
  out.key = rounding_key(numbers.seed, numbers.step, span.parameter);
  out.begin = span.begin;
  out.length = span.length;
  return out;
}

void use(const FlatRange& range, gpu::LaunchOperands& operands) {
  operands.reads.push_back(range.grads);
  operands.updates.push_back(range.weights);
  operands.updates.insert(operands.updates.end(), range.states.begin(), range.states.end());
  if (range.rounded.defined()) operands.writes.push_back(range.rounded);
}

/// Two ranges of some elements: one that 16-byte loads fit, and one that they do not.
std::vector<FlatRange> sample(const Optimizer& optimizer, at::Device device) {
  constexpr int64_t kAll = kChunk + 1201, kFirst = kChunk + 132;
  const auto on = [&](const at::Tensor& x) { return comm::upload(x, device); };
  const auto index = at::arange(kAll, at::kFloat);
  FlatRange whole{.weights = on(at::sin(index)), .grads = on(at::cos(index * 1.7) * 3)};
  for (const auto& state : optimizer.states()) {
    whole.states.push_back(on(at::sin(index * 0.3).square().to(state.dtype)));
  }
  whole.rounded = at::zeros({kAll}, whole.weights.options().dtype(at::kBFloat16));
  std::vector<FlatRange> out;
  const auto add = [&](int64_t begin, int64_t end, double decay, const char* parameter) {
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, end - begin); };
    FlatRange range{.weights = part(whole.weights), .grads = part(whole.grads)};
    for (const auto& state : whole.states) range.states.push_back(part(state));
    range.rounded = part(whole.rounded);
    range.weight_decay = decay;
    range.spans = {{parameter, 77, 0, end - begin}};
    out.push_back(std::move(range));
  };
  add(0, kFirst, 0.1, "first");
  add(kFirst + 1, kAll, 0, "second");
  return out;
}

/// All that an update of sample() changes.
std::vector<at::Tensor> numbers_of(const std::vector<FlatRange>& ranges) {
  std::vector<at::Tensor> out;
  for (const auto& range : ranges) {
    out.push_back(range.weights);
    out.insert(out.end(), range.states.begin(), range.states.end());
    out.push_back(range.rounded);
  }
  return out;
}

}  // namespace

UpdateKernel::UpdateKernel(const char* name, bool draws) : kernel_(name, kText), draws_(draws) {}

void UpdateKernel::for_each_launch(const std::vector<FlatRange>& ranges, const StepNumbers& numbers,
                                   const Launch& launch) const {
  UpdateSegments segments;
  gpu::LaunchOperands operands;
  const auto flush = [&] {
    if (segments.count == 0) return;
    if (numbers.device_state.defined()) operands.reads.push_back(numbers.device_state);
    launch(segments, operands, segments.of[static_cast<size_t>(segments.count) - 1].chunks);
    segments = {};
    operands = {};
  };
  const FlatRange* used = nullptr;
  const auto add = [&](const FlatRange& range, UpdateSegment segment) {
    if (segment.length == 0) return;
    const auto count = static_cast<size_t>(segments.count);
    const uint32_t before = count == 0 ? 0 : segments.of[count - 1].chunks;
    segment.chunks = before + static_cast<uint32_t>((segment.length + kChunk - 1) / kChunk);
    segments.of[count] = segment;
    if (used != &range || count == 0) use(range, operands);
    used = &range;
    if (static_cast<size_t>(++segments.count) == UpdateSegments::kMost) flush();
  };
  for (const auto& range : ranges) {
    if (!draws_) {
      add(range, segment_of(range, numbers));
      continue;
    }
    for (const auto& span : range.spans) add(range, segment_of(range, numbers, span));
  }
  flush();
}

bool UpdateKernel::serves(const std::vector<FlatRange>& ranges, const Optimizer& optimizer,
                          const Way& by_kernel, const Way& by_operations) {
  const auto device = ranges.front().weights.device();
  const auto fits = [](const FlatRange& range) {
    return !range.rounded.defined() || range.rounded.scalar_type() == at::kBFloat16;
  };
  if (!std::all_of(ranges.begin(), ranges.end(), fits)) return false;
  return kernel_.serves(device, [&] {
    const StepNumbers numbers{.learning_rate = 1e-2, .step = 7, .grad_divisor = 3, .seed = 5};
    const auto mine = sample(optimizer, device), theirs = sample(optimizer, device);
    by_kernel(mine, numbers);
    by_operations(theirs, numbers);
    return comm::item<double>(gpu::difference(numbers_of(mine), numbers_of(theirs)));
  });
}

}  // namespace convoy::optim
