#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "convoy/nn/block.h"

// Several documents in a row, of which none sees another. A batch tells them by `documents` [B, T]
// int64: numbers that differ between neighbours, below 0 where there is padding.
namespace convoy::nn {

/// Positions of a row that one document has, or padding.
struct DocumentPlace {
  int64_t row = 0, begin = 0, length = 0;
  bool is_padding = false;
};

/// Returns the `documents` of a batch; undefined where each row is one.
at::Tensor documents_of(const Bundle& batch);

/// Returns the documents of all rows, one after the other, padding among them; every position has
/// one.
std::vector<DocumentPlace> places_of_documents(const at::Tensor& documents);

/// Whether each row is one document, without padding.
bool are_whole_rows(const std::vector<DocumentPlace>& places, const at::Tensor& documents);

/// Throws UsageError where a block does not take rows of several documents, or ranks share out
/// the positions of a row.
void check_take_documents(const BlockList& blocks, int num_context_ranks);

/// check_take_documents() where a batch has documents; also throws where they are of other sizes
/// than its tokens.
void check_documents(const Bundle& batch, const BlockList& blocks, int num_context_ranks);

}  // namespace convoy::nn
