#pragma once

#include <cstdint>
#include <vector>

#include "convoy/nn/block.h"

// Shapes: B rows, T positions of a text, I of what is left of it, L of what is asked for.
namespace convoy::masking {

/// T5's denoising (Raffel et al., "Exploring the limits of transfer learning", 2020): spans of a
/// text are replaced by one sentinel each, and asked for behind the same sentinels. Both end with
/// `end_id`. Every text of a length has as many spans, and as many tokens in them.
struct SpanCorruption {
  double noise_density = 0.15;
  double mean_span_length = 3;
  std::vector<int64_t> sentinel_ids;  ///< of the first span, the second, ...
  int64_t end_id = 1;

  /// Number of tokens that are asked for in a text of `length`, and of spans that they lie in.
  int64_t num_noise_tokens(int64_t length) const;
  int64_t num_spans(int64_t length) const;
  /// Lengths I and L that a text of `length` turns into, with sentinels and the end.
  int64_t input_length(int64_t length) const;
  int64_t target_length(int64_t length) const;
  /// Returns the longest text that leaves at most `input_length` positions. Throws UsageError where
  /// there is none.
  int64_t text_length(int64_t input_length) const;
};

/// `input_ids` [B, I] and `labels` [B, L], on the host, of texts `ids` [B, T]. Which spans: a
/// function of seed, step and sample in training, of the text in evaluation.
struct CorruptedText {
  at::Tensor input_ids, labels;
};
CorruptedText corrupt_spans(const at::Tensor& ids, const SpanCorruption& corruption,
                            const nn::Context& context);

}  // namespace convoy::masking
