#include "convoy/nn/param.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/normals.h"
#include "convoy/base/random.h"
#include "convoy/nn/cast.h"

namespace convoy::nn {

int64_t ParamSpec::num_elements() const {
  return schedule::num_elements(shape);
}

void Param::cut(const schedule::TensorPlace& place) {
  const auto& cut = spec_.cut;
  shape_ = schedule::local_shape(spec_.shape, cut, place);
  begin_ = 0;
  if (cut.dim < 0) return;
  begin_ = schedule::boxes(spec_.shape, cut, place).front().begin.at(static_cast<size_t>(cut.dim));
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

void Param::bind_grad(at::Tensor grad, bool written) {
  grad_ = std::move(grad);
  grad_written_ = written || leaf_.defined();
  if (!leaf_.defined()) return;
  if (!written) grad_.zero_();
  leaf_.mutable_grad() = grad_;
}

void Param::add_grad(const at::Tensor& contribution) {
  if (!spec_.trainable) return;
  at::NoGradGuard no_grad;
  if (grad_written_) {
    grad_.add_(contribution);
  } else {
    cast(grad_, contribution);
    grad_written_ = true;
  }
}

void Param::add_grad(at::ScalarType dtype, const std::function<void(at::Tensor&)>& write) {
  if (!spec_.trainable) return;
  if (later_ != nullptr) {
    later_->emplace_back([this, dtype, write] { add_grad(dtype, write); });
    return;
  }
  at::NoGradGuard no_grad;
  if (!grad_written_ && grad_.scalar_type() == dtype) {
    write(grad_);
    grad_written_ = true;
    return;
  }
  auto contribution = at::empty(shape_, grad_.options().dtype(dtype));
  write(contribution);
  add_grad(contribution);
}

void Param::add_to_grad(const std::function<void(at::Tensor&)>& add) {
  if (!spec_.trainable) return;
  at::NoGradGuard no_grad;
  if (!grad_written_) grad_.zero_();
  grad_written_ = true;
  add(grad_);
}

void initialize(const ParamSpec& spec, uint64_t seed, at::Tensor out, int64_t first) {
  const uint64_t key = hash_combine(mix64(seed), hash_text(spec.name));
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
    case Init::Kind::Uniform: {
      auto host = at::empty({count}, at::kFloat);
      float* values = host.data_ptr<float>();
      const double scale = spec.init.scale;
      const bool normal = spec.init.kind == Init::Kind::Normal;
      at::parallel_for(0, count, 4096, [&](int64_t begin, int64_t end) {
        if (normal) {
          return fill_normals(key, static_cast<uint64_t>(first + begin), end - begin,
                              static_cast<float>(scale), values + begin);
        }
        for (int64_t i = begin; i < end; ++i) {
          auto at = static_cast<uint64_t>(first + i);
          values[i] = static_cast<float>(scale * (2 * uniform01(key, at) - 1));
        }
      });
      out.copy_(host.view(out.sizes()));
      return;
    }
  }
}

}  // namespace convoy::nn
