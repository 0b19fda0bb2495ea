#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>

#include "convoy/models/session/session.h"
#include "convoy/parallel/run/replica.h"
#include "convoy/tasks/session/known_items.h"

namespace convoy::tasks {

/// A trained session model in this process, whose predictions are states (predicts_states).
struct LoadedModel {
  /// Opens the output folder of a run, or a checkpoint in it. Throws FileError that names the file.
  /// With an item tower it has the items, too, that the data beside `data` have beyond its own.
  explicit LoadedModel(const std::filesystem::path& folder, at::Device device = at::kCPU,
                       const std::filesystem::path& data = {});

  int64_t num_items() const { return vectors_.size(0) - 1; }
  /// Vectors of the ids 1, 2, ... [items, width].
  at::Tensor item_table() const { return vectors_.narrow(0, 1, num_items()); }

  models::SessionConfig config;
  KnownIdsOfModel known;
  bool has_newer_items = false;  ///< than its own, whose names are beside `data`
  nn::BlockList blocks;

 private:
  std::unique_ptr<parallel::Replica> replica_;  // holds what the blocks compute with
  at::Tensor vectors_;                          // of all ids
};

}  // namespace convoy::tasks
