#include "convoy/bench/presets.h"

#include <fmt/format.h>

#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::bench {

namespace {

/// Ending of the name of a schedule: two pipelines that share out the data.
constexpr std::string_view kTwoPipelines = "-2d";

template <int stage>
Options zero(int /*ranks*/) {
  return {{"zero", std::to_string(stage)}, {"shard_ranks", "all"}};
}
/// Sets a stage of ZeRO with two state replicas.
template <int stage>
Options hybrid(int ranks) {
  return {{"zero", std::to_string(stage)}, {"shard_ranks", std::to_string(ranks / 2)}};
}
/// Sets a stage of ZeRO with all that it shards on disk.
template <int stage>
Options on_disk(int ranks) {
  auto out = zero<stage>(ranks);
  out["offload_optimizer"] = "disk";
  if (stage >= 2) out["offload_gradients"] = "disk";
  if (stage >= 3) out["offload_parameters"] = "disk";
  return out;
}
Options nothing(int /*ranks*/) {
  return {};
}

constexpr const char* kTwoReplicas = "two state replicas need an even number of ranks, 4 at least";
constexpr const char* kPairs = "pairs of tensor ranks need an even number of ranks, 4 at least";

/// Strategies by name, those of pipelines behind the others.
std::vector<Preset> presets() {
  std::vector<Preset> out{
      {.name = "single", .options = nothing, .least = 1, .has_processes = false},
      {.name = "dp", .options = nothing, .has_processes = false},
      {.name = "ddp", .options = nothing},
      {.name = "zero1", .options = zero<1>},
      {.name = "zero2", .options = zero<2>},
      {.name = "zero3", .options = zero<3>},
      {.name = "zero1-hybrid",
       .options = hybrid<1>,
       .least = 4,
       .multiple = 2,
       .why = kTwoReplicas},
      {.name = "zero2-hybrid",
       .options = hybrid<2>,
       .least = 4,
       .multiple = 2,
       .why = kTwoReplicas},
      {.name = "zero3-hybrid",
       .options = hybrid<3>,
       .least = 4,
       .multiple = 2,
       .why = kTwoReplicas},
      {.name = "zero1-disk", .options = on_disk<1>},
      {.name = "zero2-disk", .options = on_disk<2>},
      {.name = "zero3-disk", .options = on_disk<3>},
      {.name = "tp",
       .options = [](int ranks) -> Options {
         return {{"tensor_parallel_size", std::to_string(ranks)}};
       }},
      {.name = "tp-sp",
       .options = [](int ranks) -> Options {
         return {{"tensor_parallel_size", std::to_string(ranks)}, {"sequence_parallel", "true"}};
       }},
      {.name = "dp-tp",
       .options = [](int) -> Options { return {{"tensor_parallel_size", "2"}}; },
       .least = 4,
       .multiple = 2,
       .why = kPairs},
      {.name = "pp-tp",
       .options = [](int ranks) -> Options {
         return {{"tensor_parallel_size", "2"},
                 {"pipeline_parallel_size", std::to_string(ranks / 2)}};
       },
       .least = 4,
       .multiple = 2,
       .why = kPairs},
      {.name = "3d",
       .options = [](int) -> Options {
         return {{"tensor_parallel_size", "2"},
                 {"pipeline_parallel_size", "2"},
                 {"zero", "1"},
                 {"shard_ranks", "all"}};
       },
       .least = 8,
       .multiple = 4,
       .why = "2 stages x 2 tensor ranks and others with other rows need 8 ranks, 12 or more"},
      {.name = "cp", .options = [](int ranks) -> Options {
         return {{"context_parallel_size", std::to_string(ranks)}};
       }}};
  for (const auto& schedule : parallel::pipeline_schedule_names()) {
    out.push_back({.name = schedule,
                   .options = [](int ranks) -> Options {
                     return {{"pipeline_parallel_size", std::to_string(ranks)}};
                   },
                   .schedule = schedule});
    out.push_back({.name = fmt::format("{}{}", schedule, kTwoPipelines),
                   .options = [](int ranks) -> Options {
                     return {{"pipeline_parallel_size", std::to_string(ranks / 2)}};
                   },
                   .least = 4,
                   .multiple = 2,
                   .why = "two pipelines need an even number of ranks, 4 at least",
                   .schedule = schedule});
  }
  return out;
}

}  // namespace

std::optional<Preset> find_preset(const std::string& name) {
  for (auto& one : presets()) {
    if (one.name == name) return std::move(one);
  }
  return std::nullopt;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> out;
  for (const auto& preset : presets()) out.push_back(preset.name);
  return out;
}

}  // namespace convoy::bench
