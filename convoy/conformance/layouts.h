#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/planner/time/share.h"

namespace convoy::conformance {

/// Layout of a training that can be compared with one device.
struct TrainingLayout {
  parallel::Parallelism split;
  bool threads = false;  ///< DataParallel: one process with a thread for each data rank

  std::string to_text() const;
};

/// Limits of the layouts to list.
struct LayoutRequest {
  int num_ranks = 2;
  parallel::Parallelism one_device = {};  ///< spread of the step, of which all have the rows
  int64_t num_blocks = 1;                 ///< of the model: a stage has one at least
  bool to_disk = false;                   ///< also with state offloaded to disk
  int64_t num_experts = 0;                ///< of a layer; 0: the model has none
};

/// Lists every kind of layout that so many ranks allow: meshes of data, expert, context, tensor and
/// pipeline ranks, each with ZeRO's stages, schedules, sequence parallelism, recomputation and
/// offload. Some do not suit every model: a training refuses them with the reason.
std::vector<TrainingLayout> layouts_of(const LayoutRequest& request);

}  // namespace convoy::conformance
