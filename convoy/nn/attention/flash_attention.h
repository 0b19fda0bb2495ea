#pragma once

#include <vector>

#include "convoy/nn/attention/attention.h"
#include "convoy/nn/documents.h"

namespace convoy::nn {

/// Causal attention of q [B, H, T, E] to k and v [B, K, S, E] by torch's flash kernel, with the
/// window; the queries are the last T of S positions. With `places` each document is attended to by
/// itself, T = S, and padding gives zeros. Gradients of q have no fixed bits. Undefined where
/// another kernel must be used: with a key mask, a bias, a cap, or dropout in training; in 32 bits;
/// for E above 256 or no multiple of 8; on a processor or a GPU that lacks the kernel, or refused a
/// call before; in deterministic runs.
at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionOptions& options, const Context& context,
                           const std::vector<DocumentPlace>& places = {});

}  // namespace convoy::nn
