#pragma once

#include <ATen/core/Tensor.h>

#include "convoy/nn/attention/rotary.h"
#include "convoy/nn/block.h"

namespace convoy::models {

/// Angles by which a model's layers turn queries and keys. Each process computes its own, so
/// that they need not travel from stage to stage.
class RotaryAngles {
 public:
  /// Angles for heads of which `width` elements turn.
  RotaryAngles(nn::RotaryOptions options, int64_t width)
      : options_(std::move(options)),
        width_(width),
        by_row_(options_.type == "dynamic" || options_.type == "longrope") {}

  /// Tables for the batch's positions, else for all up to `length`, which steps share.
  const nn::RotaryTables& tables(const nn::Bundle& batch, int64_t length, at::Device device);
  /// Factors of queries at the positions of the last tables(), [T, 1] or [B, 1, T, 1]; undefined
  /// where there are none.
  const at::Tensor& query_factors() const { return query_factors_; }
  int64_t width() const { return width_; }

 private:
  nn::RotaryTables of_rows(const at::Tensor& positions, const at::Tensor& mask,
                           const at::Tensor& documents) const;

  nn::RotaryOptions options_;
  int64_t width_;
  bool by_row_;           // the length of a row, or of a document, changes its angles
  at::Tensor positions_;  // that tables_ are of; undefined: all up to a length
  at::Tensor mask_, documents_;
  nn::RotaryTables tables_;
  at::Tensor query_factors_;
};

}  // namespace convoy::models
