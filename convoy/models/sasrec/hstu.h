#pragma once

#include "convoy/models/sasrec/sasrec.h"

// Shapes: B rows, T positions.
namespace convoy::models {

/// Distances from events to the times that positions ask for, in buckets of a third of a power of
/// two: ln(seconds) / 0.301 rounded down, 128 at most, [B, T, T] int64 of times [B, T] int64: (i,
/// j) is of the seconds from event j to `asked` [B, T] of position i.
at::Tensor time_buckets(const at::Tensor& asked, const at::Tensor& times);

/// One layer of HSTU (Zhai et al., "Actions speak louder than words", 2024): bundle["hidden"] [B,
/// T, hidden_size] in and out, every other tensor passes through. A position's weights of itself
/// and of those before are silu(scores) / max_length each, no softmax: how often it saw something
/// counts. Scores have a bias by distance and one by bundle["time_buckets"]. Only positions of
/// bundle["key_mask"] [B, T] bool are there.
///
/// Parameters are named as in RecTools' models: `<prefix>.<index>.uvqk_proj` and so on.
/// `asked_only` as of make_sasrec_layer().
nn::BlockPtr make_hstu_layer(const SasrecConfig& config, const std::string& prefix, int64_t index,
                             bool asked_only = false);

}  // namespace convoy::models
