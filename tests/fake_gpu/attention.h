#pragma once

#include <optional>

#include "tests/fake_gpu/run_on_host.h"

namespace convoy::fake_gpu {

/// The processor's fused attention of queries [B, H, T, E], keys and values [B, K, S, E], and a
/// mask that is added to scores, or an undefined one: the result, and each query's logarithm of its
/// sum.
Tensors attend_on_host(const Tensors& in, bool causal, std::optional<double> scale);

/// Gradients of queries, keys and values, from that of the result, what attend_on_host() got, the
/// result, the logarithms and the mask.
Tensors attend_on_host_backward(const Tensors& in, bool causal, std::optional<double> scale);

}  // namespace convoy::fake_gpu
