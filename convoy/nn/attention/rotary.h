#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

// Shapes: B rows, H heads, T positions, E width of a head.
namespace convoy::nn {

/// Rotary embedding of positions in queries and keys (Su et al., "RoFormer", 2021), and its scaling
/// to longer texts; kinds and names as in Hugging Face's `rope_parameters`.
struct RotaryOptions {
  /// default, linear, dynamic, yarn, llama3, longrope or proportional
  std::string type = "default";
  double theta = 10000;
  double factor = 1;               ///< all but default: how much longer texts may be
  int64_t max_length = 2048;       ///< dynamic, longrope: longer texts are stretched
  int64_t original_length = 2048;  ///< yarn, llama3: longest text before the stretching
  /// yarn, longrope: on sine and cosine; 0 = by mscale and factor
  double attention_factor = 0;
  double mscale = 0, mscale_all_dim = 0;                      ///< yarn; 0 = not given
  double beta_fast = 32, beta_slow = 1;                       ///< yarn
  bool truncate = true;                                       ///< yarn: whole dimensions as bounds
  double low_freq_factor = 1, high_freq_factor = 4;           ///< llama3
  std::vector<double> short_factors = {}, long_factors = {};  ///< longrope: of each wavelength
  double proportion = 1;  ///< proportional: part of the pairs that turn, the fastest ones
  double query_beta = 0;  ///< of queries beyond original_length; 0 = they stay
};

/// Cosines and sines [..., E / 2] fp32 of the angles at some positions.
struct RotaryTables {
  at::Tensor cos, sin;
};

/// Computes the formulas of Hugging Face's modeling_rope_utils, in its precision, at `positions`
/// [...] int64 of a text of `length`.
RotaryTables rotary_tables(const RotaryOptions& options, const at::Tensor& positions,
                           int64_t length, int64_t width);
/// Tables at positions 0..length-1.
RotaryTables rotary_tables(const RotaryOptions& options, int64_t length, int64_t width,
                           at::Device device);

/// Turns x [B, H, T, E]: dimension i pairs with i + E / 2. cos and sin are [T, E / 2], or
/// [B, 1, T, E / 2] where rows stand at other positions.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

/// Rotates several tensors that differ in H only: in one launch on a GPU where they lie side by
/// side, as linears() leaves them.
std::vector<at::Tensor> rotate_all(const std::vector<at::Tensor>& xs, const at::Tensor& cos,
                                   const at::Tensor& sin);

}  // namespace convoy::nn
