#include "convoy/nn/param.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/normals.h"
#include "convoy/base/random.h"
#include "convoy/nn/cast.h"
#include "convoy/nn/side_by_side.h"

namespace convoy::nn {

int64_t ParamSpec::num_elements() const {
  return parallel::num_elements(shape);
}

void Param::cut(const parallel::TensorPlace& place) {
  const auto& cut = spec_.cut;
  shape_ = parallel::local_shape(spec_.shape, cut, place);
  begin_ = 0;
  if (cut.dim < 0) return;
  begin_ = parallel::boxes(spec_.shape, cut, place).front().begin.at(static_cast<size_t>(cut.dim));
}

const at::Tensor& Param::value() const {
  internal_check(value_.defined() && (value_.const_data_ptr() != nullptr || value_.numel() == 0),
                 "nn", "parameter {} has no memory now", spec_.name);
  return value_;
}

void Param::bind_value(at::Tensor value) {
  value_ = std::move(value);
  if (leaf_.defined()) leaf_.set_data(value_);
}

void Param::bind_rows(at::Tensor value, at::Tensor ids, at::Tensor places) {
  value_ = std::move(value);
  row_ids_ = std::move(ids);
  row_places_ = std::move(places);
}

at::Tensor Param::places_of(const at::Tensor& ids) const {
  if (!is_by_rows()) return ids;
  const auto at = at::searchsorted(row_ids_, ids).clamp_max_(row_ids_.size(0) - 1).reshape({-1});
  if (ids.is_cpu()) {
    const bool all = row_ids_.index_select(0, at).equal(ids.reshape({-1}));  // on the host
    internal_check(all, "nn", "rows of {} that were not fetched", spec_.name);
  }
  return row_places_.index_select(0, at).view(ids.sizes());
}

void Param::bind_grad(at::Tensor grad, bool written, bool of_others) {
  grad_ = std::move(grad);
  grad_written_ = written || leaf_.defined();
  written_by_others_ = of_others;
  if (!leaf_.defined()) return;
  if (!written) grad_.zero_();
  leaf_.mutable_grad() = grad_;
}

void Param::note_contribution() {
  has_come_ = true;
  if (!written_by_others_) comes_in_parts_ = comes_in_parts_ || grad_written_;
}

bool Param::adds_in_place(at::ScalarType dtype) const {
  return grad_.scalar_type() == dtype && (!grad_written_ || grad_.is_cuda());
}

void Param::add_grad(const at::Tensor& contribution) {
  if (!spec_.trainable) return;
  at::NoGradGuard no_grad;
  note_contribution();
  if (grad_written_) {
    grad_.add_(contribution);
  } else {
    cast(grad_, contribution);
    grad_written_ = true;
  }
}

void Param::add_grad(at::ScalarType dtype, const Write& write) {
  if (!spec_.trainable) return;
  if (later_ != nullptr) {
    later_->emplace_back([this, dtype, write] { add_grad(dtype, write); });
    return;
  }
  at::NoGradGuard no_grad;
  if (adds_in_place(dtype)) {
    note_contribution();
    write(grad_, grad_written_);
    grad_written_ = true;
    return;
  }
  auto contribution = at::empty(shape_, grad_.options().dtype(dtype));
  write(contribution, false);
  add_grad(contribution);
}

void add_grads(const std::vector<ParamPtr>& params, at::ScalarType dtype,
               const Param::Write& write) {
  const auto& first = *params.front();
  if (first.later_ != nullptr) {
    first.later_->emplace_back([=] { add_grads(params, dtype, write); });
    return;
  }
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> grads;
  std::vector<int64_t> lengths;
  bool in_place = true;
  for (const auto& param : params) {
    grads.push_back(param->grad_);
    lengths.push_back(param->shape_[0]);
    in_place =
        in_place && param->adds_in_place(dtype) && param->grad_written_ == first.grad_written_;
  }
  auto all = in_place ? side_by_side(grads, 0) : at::Tensor();
  if (all.defined()) {
    write(all, first.grad_written_);
    for (const auto& param : params) {
      param->note_contribution();
      param->grad_written_ = true;
    }
    return;
  }
  auto sizes = first.shape_;
  sizes[0] = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  all = at::empty(sizes, grads.front().options().dtype(dtype));
  write(all, false);
  const auto parts = all.split_with_sizes(lengths);
  for (size_t i = 0; i < params.size(); ++i) params[i]->add_grad(parts[i]);
}

void Param::add_to_grad(const std::function<void(at::Tensor&)>& add) {
  if (!spec_.trainable) return;
  at::NoGradGuard no_grad;
  comes_in_parts_ = true;  // it may add to one place several times
  if (!grad_written_) grad_.zero_();
  grad_written_ = true;
  add(grad_);
}

namespace {

/// Whether all elements begin alike, or as they are.
bool is_constant(Init::Kind kind) {
  return kind == Init::Kind::Zeros || kind == Init::Kind::Ones || kind == Init::Kind::Given;
}

uint64_t key_of(const ParamSpec& spec, uint64_t seed) {
  return hash_combine(mix64(seed), hash_text(spec.name));
}

/// Value of a kind that is drawn by one number `u` from 0 to 1.
double drawn(const Init& init, double u) {
  if (init.kind == Init::Kind::LogOfUniform) {
    // Away from zero, whose logarithm is none.
    return std::log(std::max(init.least + u * (init.scale - init.least), 1e-6 * init.scale));
  }
  if (init.kind == Init::Kind::StepsOfTime) {
    const double low = std::log(init.least), high = std::log(init.scale);
    const double step = std::max(std::exp(low + u * (high - low)), init.floor);
    return step + std::log(-std::expm1(-step));
  }
  return init.scale * (2 * u - 1);
}

/// Draws values of the kinds that are not constant: elements first, first + 1, ... of the whole
/// parameter.
void draw(const ParamSpec& spec, uint64_t key, int64_t first, int64_t count, float* out) {
  const auto& init = spec.init;
  if (init.kind == Init::Kind::Normal) {
    fill_normals(key, static_cast<uint64_t>(first), count, static_cast<float>(init.scale), out);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<float>(drawn(init, uniform01(key, static_cast<uint64_t>(first + i))));
    }
  }
  if (!init.zero_row) return;
  const int64_t width = spec.shape.back();
  const int64_t begin = std::max(first, *init.zero_row * width),
                end = std::min(first + count, (*init.zero_row + 1) * width);
  if (begin < end) std::fill(out + begin - first, out + end - first, 0.0F);
}

}  // namespace

void initialize_rows(const ParamSpec& spec, uint64_t seed, at::Tensor out, int64_t first,
                     int64_t stride) {
  if (is_constant(spec.init.kind)) {
    return initialize(spec, seed, out.view({-1}));
  }
  const uint64_t key = key_of(spec, seed);
  const int64_t width = out.size(1);
  auto host = out.is_cpu() ? out : at::empty(out.sizes(), at::kFloat);
  auto* values = host.mutable_data_ptr<float>();
  at::parallel_for(0, out.size(0), at::divup(4096, width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      draw(spec, key, (first + row * stride) * width, width, values + row * width);
    }
  });
  if (!out.is_cpu()) out.copy_(host);
}

void initialize(const ParamSpec& spec, uint64_t seed, at::Tensor out, int64_t first) {
  const uint64_t key = key_of(spec, seed);
  const int64_t count = out.numel();
  switch (spec.init.kind) {
    case Init::Kind::Given:
      return;
    case Init::Kind::Zeros:
      out.zero_();
      return;
    case Init::Kind::Ones:
      out.fill_(1);
      return;
    case Init::Kind::Normal:
    case Init::Kind::Uniform:
    case Init::Kind::LogOfUniform:
    case Init::Kind::StepsOfTime: {
      auto host = at::empty({count}, at::kFloat);
      float* values = host.data_ptr<float>();
      at::parallel_for(0, count, 4096, [&](int64_t begin, int64_t end) {
        draw(spec, key, first + begin, end - begin, values + begin);
      });
      out.copy_(host.view(out.sizes()));
      return;
    }
  }
}

}  // namespace convoy::nn
