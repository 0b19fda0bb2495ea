#pragma once

#include "convoy/nn/block.h"

namespace convoy::models {

/// Block of a causal model of text: it computes with shares of its parameters, of the tokens and of
/// the positions of a row, and keeps documents apart.
class TextBlock : public nn::Block {
 public:
  using Block::Block;

  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }
  bool takes_context_ranks() const override { return true; }
  bool takes_documents() const override { return true; }
};

}  // namespace convoy::models
