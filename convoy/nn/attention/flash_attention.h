#pragma once

#include <vector>

#include "convoy/nn/attention/attention.h"
#include "convoy/nn/documents.h"

namespace convoy::nn {

/// Causal attention of q [B, H, T, E] to k and v [B, K, S, E] by torch's flash kernel, with the
/// window, in one launch; the queries are the last T of S positions. With `places` each document is
/// attended to by itself, T = S, and padding gives zeros. Undefined where another way is to be
/// taken: with a key mask, a bias, a cap, or dropout in training; in 32 bits; on a processor or a
/// GPU that lacks the kernel; in deterministic runs.
at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionOptions& options, const Context& context,
                           const std::vector<DocumentPlace>& places = {});

}  // namespace convoy::nn
