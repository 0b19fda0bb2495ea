#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "convoy/nn/param.h"

namespace convoy::nn {

inline ParamPtr param(const at::Tensor& value) {
  auto made = std::make_shared<Param>(ParamSpec{"p", value.sizes().vec(), Init::zeros()});
  made->bind_value(value);
  made->bind_grad(at::full_like(value, 77));  // old content must not matter
  return made;
}

inline void backward(const at::Tensor& loss) {
  torch::autograd::backward({loss}, {});
}

inline void expect_close(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_TRUE(at::allclose(a, b, 1e-5, 1e-6)) << (a - b).abs().max().item<double>();
}

}  // namespace convoy::nn
