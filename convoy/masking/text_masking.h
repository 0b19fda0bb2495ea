#pragma once

#include <cstdint>
#include <vector>

#include "convoy/nn/block.h"

// Shapes: B rows, T positions.
namespace convoy::masking {

/// Masking in training as Hugging Face's DataCollatorForLanguageModeling does it: of the chosen
/// positions 80 % become `mask_id`, 10 % a random id, 10 % stay.
struct TextMasking {
  double probability = 0.15;
  int64_t mask_id = 0;
  std::vector<int64_t> kept_ids;  ///< never chosen: tokens that the tokenizer puts around texts
};

/// Ids with some hidden, and what they were: `targets` [B, T], -100 where nothing is asked; both on
/// the host. A function of seed, step, sample and position in training, of the text in evaluation.
struct MaskedText {
  at::Tensor ids, targets;
};
MaskedText mask_text(const at::Tensor& ids, const TextMasking& masking, int64_t num_ids,
                     const nn::Context& context);

}  // namespace convoy::masking
