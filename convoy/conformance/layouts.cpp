#include "convoy/conformance/layouts.h"

#include <fmt/format.h>

#include "convoy/base/text.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::conformance {

namespace {

using parallel::Parallelism;
using parallel::Place;

/// Returns the split with the state of its ZeRO stage on disk, as far as the stage allows.
Parallelism on_disk(Parallelism split) {
  split.offload.optimizer = Place::Disk;
  if (split.zero >= 2) split.offload.gradients = Place::Disk;
  if (split.zero >= 3) split.offload.parameters = Place::Disk;
  return split;
}

/// Adds a mesh with each stage of ZeRO and, where it has data ranks alone, also hybrid and
/// offloaded layouts.
void add_stages_of_zero(std::vector<TrainingLayout>& out, const LayoutRequest& request,
                        Parallelism split) {
  const bool only_data = split.ranks.pipeline == 1 && split.ranks.tensor == 1 &&
                         split.ranks.context == 1 && split.ranks.expert == 1;
  const int64_t most = split.state_ranks() > 1 ? 3 : 0;
  for (split.zero = 0; split.zero <= most; ++split.zero) {
    out.push_back({split});
    if (!only_data || split.zero == 0) continue;
    if (split.ranks.data() % 2 == 0 && split.ranks.data() > 2) {
      auto hybrid = split;
      hybrid.set_shard_ranks(split.ranks.data() / 2);
      out.push_back({hybrid});
    }
    if (request.to_disk) out.push_back({on_disk(split)});
  }
  split.zero = 0;
  split.recompute = true;
  out.push_back({split});
}

void add_mesh(std::vector<TrainingLayout>& out, const LayoutRequest& request, Parallelism split) {
  if (split.ranks.pipeline == 1) {
    add_stages_of_zero(out, request, split);
    if (split.ranks.tensor > 1) {
      split.sequence_parallel = true;
      add_stages_of_zero(out, request, split);
    }
    return;
  }
  for (const auto* entry : parallel::pipeline_schedules()) {
    split.pipeline.schedule = entry;
    if (entry == &parallel::kOneFOneB) {
      add_stages_of_zero(out, request, split);
    } else {
      out.push_back({split});
    }
  }
}

/// Adds the mesh with its data ranks, and with some of these, or all, as expert ranks.
void add_data_ranks(std::vector<TrainingLayout>& out, const LayoutRequest& request,
                    Parallelism split) {
  add_mesh(out, request, split);
  const int64_t data = split.ranks.data();
  if (request.num_experts == 0 || split.ranks.tensor > 1) return;
  for (int64_t experts = 2; experts <= data; ++experts) {
    const bool some = experts == 2 || experts == data;
    if (!some || data % experts != 0 || request.num_experts % experts != 0) continue;
    split.set_expert_ranks(experts);
    add_mesh(out, request, split);
    if (split.ranks.pipeline > 1) continue;
    split.expert_joined = true;
    out.push_back({split});
    split.expert_joined = false;
  }
}

}  // namespace

std::string TrainingLayout::to_text() const {
  return threads ? fmt::format("{} DataParallel threads, {} x {}", split.ranks.data(),
                               split.micro_batches, plural(split.rows, "row"))
                 : split.to_text();
}

std::vector<TrainingLayout> layouts_of(const LayoutRequest& request) {
  std::vector<TrainingLayout> out;
  for (int context = 1; context <= request.num_ranks; ++context) {
    for (int tensor = 1; tensor <= request.num_ranks / context; ++tensor) {
      for (int pipeline = 1; pipeline <= request.num_ranks / context / tensor; ++pipeline) {
        const int data = request.num_ranks / (context * tensor * pipeline);
        const bool fills = data * context * tensor * pipeline == request.num_ranks;
        auto split = request.one_device;
        if (!fills || pipeline > request.num_blocks || split.micro_batches % data != 0) continue;
        split.ranks = {.pipeline = pipeline, .shard = data, .context = context, .tensor = tensor};
        split.micro_batches /= data;
        add_data_ranks(out, request, split);
        if (data == request.num_ranks) out.push_back({split, /*threads=*/true});
      }
    }
  }
  return out;
}

}  // namespace convoy::conformance
