#include "convoy/plan/split.h"

#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "convoy/base/text.h"
#include "convoy/schedule/pipeline/pipeline.h"

namespace convoy::plan {

namespace {

/// [section] name = value of what a split decides.
std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> values_of(
    const Split& split) {
  std::vector<std::pair<std::string, std::string>> parallel{
      {"pipeline_parallel_size", std::to_string(split.pipeline)},
      {"tensor_parallel_size", std::to_string(split.tensor)},
      {"sequence_parallel", split.sequence ? "true" : "false"},
      {"context_parallel_size", std::to_string(split.context)},
      {"zero", std::to_string(split.zero)},
      {"offload_optimizer", schedule::name_of(split.optimizer)},
      {"offload_gradients", schedule::name_of(split.gradients)},
      {"offload_parameters", schedule::name_of(split.parameters)}};
  if (split.shard > 0) parallel.emplace_back("shard_ranks", std::to_string(split.shard));
  if (split.recomputed > 0) {
    parallel.emplace_back("recompute_layers", std::to_string(split.recomputed));
  }
  if (split.prefetch > 0) parallel.emplace_back("prefetch", std::to_string(split.prefetch));
  if (split.pipeline > 1) {
    parallel.emplace_back("pipeline_schedule", split.schedule->name);
    if (!split.cut.empty()) {
      parallel.emplace_back("pipeline_splits", fmt::format("{}", fmt::join(split.cut, ",")));
    }
  }
  return {{"train",
           {{"per_device_train_batch_size", std::to_string(split.rows)},
            {"global_batch_size", std::to_string(split.global_batch())},
            {"gradient_checkpointing", split.recompute ? "true" : "false"}}},
          {"parallel", parallel}};
}

/// "optimizer and weights offloaded to cpu"; empty: nothing is offloaded.
std::string offload_text(const Split& split) {
  std::vector<std::string> out;
  for (const auto place : {schedule::Place::Cpu, schedule::Place::Disk}) {
    std::vector<std::string> what;
    if (split.optimizer == place) what.emplace_back("optimizer");
    if (split.gradients == place) what.emplace_back("gradients");
    if (split.parameters == place) what.emplace_back("weights");
    if (what.empty()) continue;
    out.push_back(fmt::format("{} offloaded to {}", join(what, " and "), schedule::name_of(place)));
  }
  return join(out);
}

bool is_number(const std::string& text) {
  return text == "true" || text == "false" || text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

BlockShare share_of(const schedule::Mesh& mesh, const schedule::RunOptions& options) {
  return {options.batch_rows, mesh.degree(schedule::Axis::Tensor),
          mesh.degree(schedule::Axis::Context), options.sequence_parallel};
}

schedule::Mesh Split::mesh(int rank) const {
  const auto replicas = shard > 0 ? static_cast<int>(state_ranks() / shard) : 1;
  return {{.pipeline = pipeline, .replicate = replicas, .context = context, .tensor = tensor},
          rank,
          num_ranks()};
}

schedule::RunOptions Split::options(schedule::RunOptions base) const {
  base.num_micro_batches = micro_batches;
  base.batch_rows = rows;
  base.zero = zero;
  base.recompute = recompute;
  base.recomputed = {};
  // A training without stages counts nothing, and so may recompute other blocks than by counts.
  if (pipeline == 1) base.counts.clear();
  if (recomputed > 0) base.recomputed.of_stage = {recomputed};
  if (prefetch > 0) base.gathers.prefetch = prefetch;
  base.sequence_parallel = sequence;
  base.pipeline = {.schedule = schedule, .splits = cut};
  base.offload = {.optimizer = optimizer, .gradients = gradients, .parameters = parameters};
  if (parameters != schedule::Place::Device) base.keep_bytes = 0;
  return base;
}

std::string Split::to_text() const {
  std::string out = mesh().to_text();
  if (pipeline > 1) out += fmt::format(", {}", schedule->name);
  if (!cut.empty()) out += fmt::format(", cut at {}", fmt::join(cut, ","));
  if (sequence) out += ", sequence_parallel";
  if (zero > 0) out += fmt::format(", zero {}", zero);
  if (shard > 0) out += fmt::format(", shard_ranks {}", shard);
  if (prefetch > 0) out += fmt::format(", prefetch {}", prefetch);
  if (recompute) out += ", gradient_checkpointing";
  if (recomputed > 0) out += fmt::format(", recompute_layers {}", recomputed);
  if (offloads()) out += ", " + offload_text(*this);
  return out + fmt::format(", {} x {}", micro_batches, plural(rows, "row"));
}

std::string Split::family() const {
  std::vector<std::string> out;
  if (pipeline > 1) out.emplace_back("pipeline");
  if (context > 1) out.emplace_back("context");
  if (tensor > 1) out.emplace_back("tensor");
  if (sequence) out.emplace_back("sequence");
  if (zero > 0) {
    out.push_back(fmt::format("{}zero {}", shard > 0 ? "hybrid " : "", zero));
  } else if (data > 1) {
    out.emplace_back(out.empty() ? "ddp" : "data");
  }
  if (out.empty()) out.emplace_back("one device");
  if (offloads()) out.emplace_back("offload");
  return join(out, " x ");
}

std::string Split::to_toml() const {
  std::string out;
  for (const auto& [section, values] : values_of(*this)) {
    out += fmt::format("[{}]\n", section);
    for (const auto& [name, value] : values) {
      out += fmt::format("{} = {}\n", name, is_number(value) ? value : toml_text(value));
    }
    out += "\n";
  }
  return out;
}

std::vector<std::string> Split::to_flags() const {
  std::vector<std::string> out;
  for (const auto& [section, values] : values_of(*this)) {
    for (const auto& [name, value] : values) {
      out.push_back(fmt::format("--{}.{}={}", section, name, value));
    }
  }
  return out;
}

}  // namespace convoy::plan
