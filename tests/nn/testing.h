#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>
#include <vector>

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

/// Each of the first within so much of the largest number of the second.
inline void expect_grads_near(const std::vector<std::pair<at::Tensor, at::Tensor>>& pairs,
                              double tolerance) {
  for (const auto& [ours, theirs] : pairs) {
    EXPECT_LE((ours - theirs).abs().max().item<double>(),
              tolerance * theirs.abs().max().item<double>());
  }
}

}  // namespace convoy::nn
