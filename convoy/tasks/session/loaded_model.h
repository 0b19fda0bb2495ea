#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>

#include "convoy/models/session/session.h"
#include "convoy/parallel/run/replica.h"

namespace convoy::tasks {

/// A trained session model in this process, whose predictions are states (predicts_states).
struct LoadedModel {
  /// Opens the output folder of a run, or a checkpoint in it. Throws FileError that names the file.
  explicit LoadedModel(const std::filesystem::path& folder, at::Device device = at::kCPU);

  int64_t num_items() const { return config.item().cardinality - 1; }
  /// Vectors of the ids 1, 2, ... [items, width].
  at::Tensor item_table() const {
    return models::output_matrix(blocks)->value().narrow(0, 1, num_items());
  }

  models::SessionConfig config;
  nn::BlockList blocks;

 private:
  std::unique_ptr<parallel::Replica> replica_;  // holds what the blocks compute with
};

}  // namespace convoy::tasks
