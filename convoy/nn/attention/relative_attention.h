#pragma once

#include "convoy/nn/block.h"

// Shapes: B rows, T positions, H heads, E width of a head.
namespace convoy::nn {

/// Queries of XLNet's attention [B, H, T, E]. A learned bias [H, E] is added to them where they
/// meet the words of the keys, another where they meet how far away those are.
struct RelativeQueries {
  at::Tensor states;
  ParamPtr word_bias, distance_bias;
};

/// Sinusoids [2 T, width] fp32 of the distances T, T - 1, ..., 1 - T (Dai et al., "Transformer-XL",
/// 2019): sines, then cosines.
at::Tensor distance_sinusoids(int64_t length, int64_t width, at::Device device);

struct RelativeOptions {
  at::Tensor seen;         ///< [B or 1, 1, T, T] bool: which keys a query sees; undefined: all
  double dropout = 0;      ///< rate on the probabilities
  int64_t max_length = 0;  ///< >= T: the longest sequence, by which draws are addressed
  int64_t site = 0;        ///< numbers the random draws
};

/// Attention whose score of query i and key j is ((q_i + word_bias) k_j + (q_i + distance_bias)
/// r_(i - j)) / sqrt(E): k, v [B, H, T, E]; `r` [H, 2 T, E] of the distances above. A query that
/// sees nothing gets zeros. All probabilities are kept: for the short rows of sessions.
at::Tensor relative_attention(const RelativeQueries& queries, const at::Tensor& k,
                              const at::Tensor& v, const at::Tensor& r,
                              const RelativeOptions& options, const Context& context);

}  // namespace convoy::nn
