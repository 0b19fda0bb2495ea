#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "convoy/comm/to_host.h"

namespace convoy::parallel {

/// Whether all of `values` are: the least and the greatest say it, without an overflow of their own
/// and at the speed of memory (a norm takes fifteen times as long).
inline bool is_finite(const at::Tensor& values) {
  if (values.numel() == 0) return true;
  const auto [least, greatest] = at::aminmax(values);
  return std::isfinite(comm::item<double>(least)) && std::isfinite(comm::item<double>(greatest));
}

}  // namespace convoy::parallel
