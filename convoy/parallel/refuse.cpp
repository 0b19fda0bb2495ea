#include "convoy/parallel/refuse.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/parallel/knobs.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

namespace {

/// Text "name = value" of a pipeline option that is not the default; "" where all are.
std::string unusual_pipeline_option(const Parallelism& parallelism) {
  Parallelism values;
  OptionTable table;
  std::vector<std::pair<const Knob*, std::string>> usual;
  for (const auto& knob : knobs()) {
    const bool is_of_pipeline = std::string_view(knob.name).starts_with("pipeline_");
    if (!is_of_pipeline || knob.declare == nullptr || knob.has_effect == nullptr) continue;
    declare(knob, table, values);
    usual.emplace_back(&knob, table.find(knob.key())->plain());
  }
  values = parallelism;
  std::string out;
  for (const auto& [knob, before] : usual) {
    const auto now = table.find(knob->key())->plain();
    if (now != before) out = fmt::format("{} = {}", knob->name, now);
  }
  return out;
}

/// Options of a pipeline that have no effect without stages or with their schedule, or that are two
/// schedules; and two ways to recompute blocks.
Refusal refuse_schedule(const Parallelism& parallelism) {
  const auto& asked = parallelism.pipeline;
  const PipelineOptions usual;
  const bool has_stages = parallelism.ranks.pipeline > 1;
  if (!has_stages && asked != usual) {
    const auto text = unusual_pipeline_option(parallelism);
    if (!text.empty()) {
      return fmt::format("{} has no effect without a pipeline; try --pipeline_parallel_size 2",
                         text);
    }
  }
  if (parallelism.recompute && parallelism.recomputed.any()) {
    return "gradient_checkpointing recomputes all blocks, recompute_layers some; try one of them";
  }
  const bool several = asked.file.empty() && asked.schedule->interleaved;
  if (has_stages && !several && asked.virtual_stages != usual.virtual_stages) {
    return fmt::format(
        "pipeline_virtual_stages = {} has no effect with {} = {}; try pipeline_schedule = "
        "interleaved",
        asked.virtual_stages, asked.file.empty() ? "pipeline_schedule" : "pipeline_schedule_file",
        asked.file.empty() ? asked.schedule->name : asked.file);
  }
  const bool scheduled = asked.schedule != usual.schedule;
  if (asked.file.empty() || (!scheduled && !asked.placement)) return std::nullopt;
  return fmt::format("pipeline_schedule_file = {} and {} = {} are two schedules; try one of them",
                     asked.file, scheduled ? "pipeline_schedule" : "pipeline_placement",
                     scheduled ? asked.schedule->name : name_of(*asked.placement));
}

/// Shared tokens without ranks to share them.
Refusal refuse_shared_tokens(const Parallelism& parallelism) {
  if (!parallelism.sequence_parallel || parallelism.ranks.tensor > 1) return std::nullopt;
  return "sequence_parallel shares out tokens over tensor ranks, but tensor_parallel_size = 1; try "
         "--tensor_parallel_size 2, or without it";
}

}  // namespace

Refusal refuse_offload(const Parallelism& parallelism, const StepFacts& facts) {
  auto offload = parallelism.offload;
  if (!facts.trains) offload.optimizer = offload.gradients = Place::Device;
  for (const auto& [option, place, least, why] : placed_parts(offload)) {
    if (place == Place::Device) continue;
    if (parallelism.zero < least) {
      return fmt::format("{} = {} with zero = {}: {} there; try --zero {}", option, name_of(place),
                         parallelism.zero, why, least);
    }
    if (parallelism.ranks.pipeline > 1 && least > 0) {
      return fmt::format(
          "{} = {} with a pipeline: each micro-batch would bring it back from there; try "
          "offload_optimizer, or more stages",
          option, name_of(place));
    }
    if (least == 3 && parallelism.keep_bytes > 0) {
      return fmt::format(
          "{} = {} with zero_keep_mb = {}: what is kept whole is in memory; try one of the two",
          option, name_of(place), parallelism.keep_bytes >> 20);
    }
    if (facts.shares_weights && parallelism.zero == 0) {
      return fmt::format(
          "{} = {} with DataParallel: its replicas share one optimizer; try --zero 1, or a process "
          "per device: convoy launch -n 2 train ...",
          option, name_of(place));
    }
    if (place == Place::Disk && !has_disk(offload)) {
      return fmt::format(
          "{} = disk needs a folder on a disk with room; got none; try --offload_dir "
          "/path/to/scratch",
          option);
    }
  }
  return std::nullopt;
}

Refusal refuse(const Parallelism& parallelism, const StepFacts& facts) {
  if (auto out = refuse_schedule(parallelism)) return out;
  if (auto out = refuse_placement(parallelism)) return out;
  if (auto out = refuse_recomputation(parallelism, facts)) return out;
  if (auto out = refuse_shared_tokens(parallelism)) return out;
  if (auto out = refuse_experts(parallelism, facts)) return out;
  if (auto out = refuse_row_tables(parallelism, facts)) return out;
  return refuse_offload(parallelism, facts);
}

Refusal refuse_placement(const Parallelism& parallelism) {
  const auto& asked = parallelism.pipeline;
  const int64_t most = asked.schedule->interleaved ? asked.virtual_stages : 1;
  const bool may_take_two = most == 2 || (asked.schedule == &kAutomatic && most > 2);
  if (asked.placement != Placement::V || may_take_two) return std::nullopt;
  return fmt::format(
      "pipeline_placement = v takes two virtual stages a rank; got {} with pipeline_schedule = {}; "
      "try pipeline_placement = loop",
      most, asked.schedule->name);
}

Refusal refuse_recomputation(const Parallelism& parallelism, const StepFacts& facts) {
  if (parallelism.recompute || !facts.trains) return std::nullopt;
  const auto& numbers = parallelism.recomputed.of_stage;
  const int64_t stages = parallelism.ranks.pipeline;
  if (parallelism.recomputed.to_fit && stages == 1) {
    return "recompute_layers = auto fits stages of a pipeline into pipeline_memory; try "
           "--pipeline_parallel_size 2, or a number";
  }
  if (parallelism.recomputed.to_fit && parallelism.pipeline.memory == 0) {
    return "recompute_layers = auto makes stages fit into pipeline_memory; try --pipeline_memory "
           "4GiB";
  }
  if (numbers.size() <= 1 || std::ssize(numbers) == stages) return std::nullopt;
  return fmt::format("recompute_layers = {} has {} numbers; expected one, or one for each of {}",
                     fmt::join(numbers, ","), numbers.size(), plural(stages, "stage"));
}

Refusal refuse_experts(const Parallelism& parallelism, const StepFacts& facts) {
  const auto& ranks = parallelism.ranks;
  if (ranks.expert == 1) return std::nullopt;
  const auto beside = [&](const std::string& what, const std::string& instead) {
    return fmt::format("expert_parallel_size = {} does not go with {}; try {}", ranks.expert, what,
                       instead);
  };
  if (ranks.tensor > 1) {
    return beside(fmt::format("tensor_parallel_size = {}", ranks.tensor),
                  fmt::format("--expert_parallel_size {} alone", ranks.expert * ranks.tensor));
  }
  const auto& offload = parallelism.offload;
  const bool offloads = facts.trains ? offload.any() : offload.parameters != Place::Device;
  if (offloads) return beside("offload", "without one of them");
  if (facts.shares_weights) {
    return beside("DataParallel's threads, which share one set of weights",
                  "a process for each rank: --nproc");
  }
  return std::nullopt;
}

Refusal refuse_row_tables(const Parallelism& parallelism, const StepFacts& facts) {
  if (!parallelism.keeps_rows(facts.trains)) return std::nullopt;
  const auto beside = [](const std::string& what, const char* instead) {
    return fmt::format("row_tables = true does not go with {}; try {}", what, instead);
  };
  const auto& ranks = parallelism.ranks;
  for (const auto& [degree, name] : {std::pair{ranks.pipeline, "pipeline_parallel_size"},
                                     std::pair{ranks.tensor, "tensor_parallel_size"},
                                     std::pair{ranks.context, "context_parallel_size"}}) {
    if (degree > 1) return beside(fmt::format("{} = {}", name, degree), "data ranks");
  }
  if (ranks.replicate > 1) {
    return beside("several state replicas (shard_ranks)", "--shard_ranks all");
  }
  if (parallelism.offload.any()) return beside("offload", "without one of them");
  return std::nullopt;
}

void require(const Refusal& none) {
  if (none) fail<UsageError>("parallel", "{}", *none);
}

std::vector<PlacedPart> placed_parts(const OffloadOptions& offload) {
  return {{"offload_optimizer", offload.optimizer, 0, ""},
          {"offload_gradients", offload.gradients, 2, "backward needs whole gradients"},
          {"offload_parameters", offload.parameters, 3, "every step needs whole weights"}};
}

bool has_disk(const OffloadOptions& offload) {
  return !offload.folder.empty();
}

int64_t least_zero(const OffloadOptions& offload) {
  int64_t out = 0;
  for (const auto& part : placed_parts(offload)) {
    if (part.place != Place::Device) out = std::max(out, part.least_zero);
  }
  return out;
}

}  // namespace convoy::parallel
