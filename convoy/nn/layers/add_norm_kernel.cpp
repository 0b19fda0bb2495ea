#include "convoy/nn/layers/add_norm_kernel.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "convoy/comm/to_host.h"
#include "convoy/gpu/agreement.h"
#include "convoy/gpu/kernel.h"

// Shapes: R rows of D numbers.
namespace convoy::nn {

namespace {

/// Constants of a text of the kernels.
struct NormText {
  int64_t width;
  bool layer;
  at::ScalarType added, rows, weight;

  auto operator<=>(const NormText&) const = default;

  /// Threads of a block: four numbers each, and more where a block would be too large.
  unsigned threads() const {
    constexpr int64_t kWarp = 32, kMost = 512;
    return static_cast<unsigned>(std::min(kMost, (width / 4 + kWarp - 1) / kWarp * kWarp));
  }

  std::string text() const {
    const auto type = [](at::ScalarType t) { return t == at::kFloat ? "float" : "unsigned short"; };
    return fmt::format(
               "#define CONVOY_WIDTH {}\n#define CONVOY_THREADS {}\n#define CONVOY_LAYER {}\n"
               "#define CONVOY_ADDED {}\n#define CONVOY_ROW {}\n#define CONVOY_WEIGHT {}\n",
               width, threads(), layer ? 1 : 0, type(added), type(rows), type(weight)) +
#include <convoy/nn/layers/add_norm_cu.h>
        ;
  }
};

/// Facts of a launch, as the text has them.
struct NormFacts {
  float epsilon, more;
};

struct NormKernels {
  explicit NormKernels(const NormText& by)
      : threads(by.threads()),
        forward("convoy_add_norm", by.text()),
        backward("convoy_add_norm_back", by.text()) {}

  unsigned threads;
  gpu::Kernel forward, backward;
};

NormText text_of(const AddNorm& given) {
  return {given.x.size(-1), given.bias.defined(),
          given.added.defined() ? given.added.scalar_type() : at::kFloat, given.rows,
          given.weight.scalar_type()};
}

NormText text_of(const AddNormBack& given) {
  return {given.states.size(-1), given.layer, given.added.value_or(at::kFloat),
          given.row_grads.scalar_type(), given.weight.scalar_type()};
}

NormKernels& kernels_of(const NormText& text) {
  static std::mutex mutex;
  static auto* all = new std::map<NormText, std::unique_ptr<NormKernels>>;
  const std::lock_guard lock(mutex);
  auto& out = (*all)[text];
  if (!out) out = std::make_unique<NormKernels>(text);
  return *out;
}

/// Whether four numbers at a time may be loaded of a contiguous tensor.
bool aligned(const at::Tensor& t) {
  const auto bytes = 4 * static_cast<uintptr_t>(t.element_size());
  return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % bytes == 0;
}

/// A contiguous tensor that is aligned(): `t` itself, if it is.
at::Tensor in_fours(const at::Tensor& t) {
  return !t.defined() || aligned(t) ? t : t.clone();
}

/// Whether the kernels take such tensors.
bool fits(const AddNorm& given) {
  constexpr int64_t kMostWidth = 8192, kMostRows = INT32_MAX;
  const auto narrow = [](const at::Tensor& t) {
    return t.scalar_type() == at::kFloat || t.scalar_type() == at::kBFloat16;
  };
  const auto& [x, added, weight, bias, epsilon, one_more, rows] = given;
  return x.is_cuda() && x.scalar_type() == at::kFloat && x.is_contiguous() && x.numel() > 0 &&
         aligned(x) && x.size(-1) % 4 == 0 && x.size(-1) <= kMostWidth &&
         x.numel() / x.size(-1) <= kMostRows &&
         (!added.defined() || (narrow(added) && added.is_contiguous() && aligned(added) &&
                               added.sizes() == x.sizes())) &&
         weight.defined() && narrow(weight) && weight.is_contiguous() &&
         (!bias.defined() || (bias.is_contiguous() && bias.scalar_type() == weight.scalar_type()));
}

int64_t num_rows(const at::Tensor& x) {
  return x.numel() / x.size(-1);
}

template <class T = void>
const T* data(const at::Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.const_data_ptr()) : nullptr;
}

template <class T = void>
T* mutable_data(const at::Tensor& t) {
  return t.defined() ? static_cast<T*>(t.mutable_data_ptr()) : nullptr;
}

std::vector<at::Tensor> defined(std::vector<at::Tensor> all) {
  std::erase_if(all, [](const at::Tensor& t) { return !t.defined(); });
  return all;
}

AddNormed launch(NormKernels& kernels, const AddNorm& given) {
  const int64_t R = num_rows(given.x);
  AddNormed out{given.added.defined() ? at::empty_like(given.x) : given.x,
                at::empty(given.x.sizes(), given.x.options().dtype(given.rows)),
                at::empty({R, 2}, given.x.options())};
  const auto written = given.added.defined() ? out.states : at::Tensor();
  const NormFacts facts{static_cast<float>(given.epsilon), given.one_more ? 1.0F : 0.0F};
  kernels.forward.launch(given.x.device(), {static_cast<unsigned>(R), kernels.threads},
                         {.reads = defined({given.x, given.added, given.weight, given.bias}),
                          .writes = defined({written, out.rows, out.stats})},
                         data<float>(given.x), data(given.added), mutable_data<float>(written),
                         mutable_data(out.rows), data(given.weight), data(given.bias),
                         mutable_data<float>(out.stats), facts);
  return out;
}

AddNormGrads launch(NormKernels& kernels, const AddNormBack& given) {
  constexpr int64_t kThreads = 1 << 18;  // in all: as many as a large GPU runs at once
  const auto& states = given.states;
  const auto row_grads = in_fours(given.row_grads), state_grads = in_fours(given.state_grads);
  const int64_t R = num_rows(states), D = states.size(-1);
  const int64_t blocks = std::min(R, kThreads / kernels.threads);
  AddNormGrads out{at::empty_like(states)};
  if (given.added) out.added = at::empty_like(states, states.options().dtype(*given.added));
  if (given.of_params) out.sums = at::empty({blocks, given.layer ? 2 : 1, D}, states.options());
  const NormFacts facts{.epsilon = 0, .more = given.one_more ? 1.0F : 0.0F};
  kernels.backward.launch(
      states.device(), {static_cast<unsigned>(blocks), kernels.threads},
      {.reads = defined({row_grads, state_grads, states, given.stats, given.weight}),
       .writes = defined({out.x, out.added, out.sums})},
      data(row_grads), data<float>(state_grads), data<float>(states), data<float>(given.stats),
      data(given.weight), mutable_data<float>(out.x), mutable_data(out.added),
      mutable_data<float>(out.sums), facts, static_cast<long long>(R));
  return out;
}

/// Largest difference of the kernels' results for some rows from torch's, computed in fp64.
double difference(NormKernels& kernels, const AddNorm& like) {
  constexpr int64_t kRows = 5;
  const int64_t D = like.x.size(-1);
  const auto options = like.x.options();
  const auto some = [&](double pace, at::IntArrayRef sizes, at::ScalarType dtype) {
    const auto index = at::arange(c10::multiply_integers(sizes), options.dtype(at::kDouble));
    return at::sin(index * pace).view(sizes).to(dtype);
  };
  auto given = like;
  given.x = some(1, {kRows, D}, at::kFloat);
  if (like.added.defined()) given.added = some(1.7, {kRows, D}, like.added.scalar_type());
  given.weight = some(0.9, {D}, like.weight.scalar_type());
  if (like.bias.defined()) given.bias = some(1.3, {D}, like.bias.scalar_type());
  const auto made = launch(kernels, given);
  AddNormBack way_back{some(0.7, {kRows, D}, like.rows), some(1.1, {kRows, D}, at::kFloat),
                       made.states, made.stats, given.weight};
  way_back.layer = given.bias.defined();
  way_back.one_more = given.one_more;
  if (given.added.defined()) way_back.added = given.added.scalar_type();
  const auto grads = launch(kernels, way_back);

  const bool layer = given.bias.defined();
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  const auto mean = [](const at::Tensor& t) { return t.mean(-1, /*keepdim=*/true); };
  auto states = wide(given.x);
  if (given.added.defined()) states = states + wide(given.added);
  const auto centred = layer ? states - mean(states) : states;
  const auto scale = (mean(centred * centred) + given.epsilon).rsqrt();
  const auto unit = centred * scale, factor = wide(given.weight) + (given.one_more ? 1 : 0);
  auto rows = unit * factor;
  if (layer) rows = rows + wide(given.bias);
  const auto g = wide(way_back.row_grads), inner = g * factor;
  auto back = inner - unit * mean(inner * unit);
  if (layer) back = back - mean(inner);
  back = back * scale + wide(way_back.state_grads);

  std::vector<at::Tensor> found{made.states, made.rows, grads.x, grads.sums.select(1, 0).sum(0)};
  std::vector<at::Tensor> expected{states, rows, back, (g * unit).sum(0)};
  if (layer) {
    found.push_back(grads.sums.select(1, 1).sum(0));
    expected.push_back(g.sum(0));
  }
  if (grads.added.defined()) {
    found.push_back(grads.added);
    expected.push_back(back);
  }
  return comm::item<double>(gpu::difference(found, expected));
}

}  // namespace

std::optional<AddNormed> add_norm_by_kernel(const AddNorm& given) {
  if (!fits(given)) return std::nullopt;
  auto& kernels = kernels_of(text_of(given));
  const auto device = given.x.device();
  if (!kernels.backward.runs_on(device) ||
      !kernels.forward.serves(device, [&] { return difference(kernels, given); })) {
    return std::nullopt;
  }
  return launch(kernels, given);
}

AddNormGrads add_norm_back_by_kernel(const AddNormBack& given) {
  return launch(kernels_of(text_of(given)), given);
}

}  // namespace convoy::nn
