#pragma once

#include <string>

#include "convoy/nn/block.h"

namespace convoy::models {

/// Settings of a layer from Hugging Face's XLNetConfig: its keys by its names.
struct XlnetConfig {
  int64_t d_model = 1024, n_layer = 24, n_head = 16, d_inner = 4096;
  std::string ff_activation = "gelu";
  double dropout = 0.1, initializer_range = 0.02, layer_norm_eps = 1e-12;
  int64_t max_length = 512;  ///< longest row, by which dropout's draws are addressed
};

/// Puts what all layers read into a bundle with "hidden" [B, T, d_model]: "distances" [2 T,
/// d_model] fp32, the sinusoids of how far apart positions are, and, unless all see all, "seen" [B
/// or 1, 1, T, T] bool: which positions `hidden` sees. Of "visible" where there are two streams;
/// with `causal` those before; else of "key_mask" [B, T] bool where there is one. Itself always.
void put_xlnet_guides(nn::Bundle& bundle, bool causal);

/// Dropout of what put_xlnet_guides() gave for positions, of which rows have `most` at most.
/// Hugging Face draws a mask for each row of a batch; here all rows of a step have the same, so
/// that their layers share the products of distances.
void drop_distances(nn::Bundle& bundle, double rate, int64_t most, const nn::Context& context);

/// One layer (Yang et al., "XLNet", 2019): bundle["hidden"] [B, T, d_model] in and out, every other
/// tensor passes through. It reads what put_xlnet_guides() gives: positions enter by how far apart
/// they are, in every layer. Parameters are named as in Hugging Face's files, but for those of
/// segments, of which there are none.
///
/// With bundle["query"] [B, T, d_model] there are two streams: position i of `hidden` and of
/// `query` sees what position j of `hidden` is where bundle["visible"] [B, T, T] bool says so, and
/// `hidden` itself, too. What comes of `query` knows where it is, not what is there.
///
/// With `asked_only` the states of `query`, which no other position sees, are computed at the flat
/// positions bundle["asked"] [N] alone, and are unspecified elsewhere. So are those of `hidden` in
/// the last layer; where there are two streams it passes through there.
nn::BlockPtr make_xlnet_layer(const XlnetConfig& config, const std::string& prefix, int64_t index,
                              bool asked_only = false);

}  // namespace convoy::models
