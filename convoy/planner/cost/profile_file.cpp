#include "convoy/planner/cost/profile_file.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/job/run_options.h"
#include "convoy/machine/cores.h"
#include "convoy/machine/host.h"
#include "convoy/nn/declare.h"
#include "convoy/parallel/program/counts.h"
#include "convoy/planner/cost/pipeline_inputs.h"

namespace convoy::planner {

namespace {

// Times that pipeline_costs has, too, under its names; the other times follow.
constexpr std::pair<const char*, double BlockCost::*> kProfileSeconds[] = {
    {"forward", &BlockCost::forward_seconds},
    {"backward", &BlockCost::backward_seconds},
    {"weight", &BlockCost::weight_seconds}};
constexpr std::pair<const char*, int64_t BlockCost::*> kProfileBytes[] = {
    {"kept", &BlockCost::kept_bytes},
    {"put_off", &BlockCost::put_off_bytes},
    {"returned", &BlockCost::returned_bytes},
    {"forward_peak", &BlockCost::forward_bytes},
    {"backward_peak", &BlockCost::backward_bytes},
    {"half_peak", &BlockCost::half_bytes},
    {"sent", &BlockCost::sent_bytes},
    {"sent_grad", &BlockCost::grad_bytes},
    {"sent_parts", &BlockCost::sent_parts},
    {"grad_parts", &BlockCost::grad_parts},
    {"forward_sums", &BlockCost::forward_sums},
    {"forward_sum_bytes", &BlockCost::forward_sum_bytes},
    {"backward_sums", &BlockCost::backward_sums},
    {"backward_sum_bytes", &BlockCost::backward_sum_bytes},
    {"forward_messages", &BlockCost::forward_messages},
    {"forward_message_bytes", &BlockCost::forward_message_bytes},
    {"backward_messages", &BlockCost::backward_messages},
    {"backward_message_bytes", &BlockCost::backward_message_bytes}};

constexpr std::pair<const char*, std::string ProfiledFor::*> kProfileTexts[] = {
    {"machine", &ProfiledFor::machine},     {"torch", &ProfiledFor::torch},
    {"model", &ProfiledFor::model},         {"rows", &ProfiledFor::rows},
    {"precision", &ProfiledFor::precision}, {"optim", &ProfiledFor::optim}};
constexpr std::pair<const char*, int64_t ProfiledFor::*> kProfileNumbers[] = {
    {"threads", &ProfiledFor::threads}, {"ranks", &ProfiledFor::ranks}};

std::string model_text(const parallel::ModelDecl& model) {
  std::string all;
  double elements = 0;
  for (const auto& param : model.params) {
    all += fmt::format("{} [{}] {}\n", param.name, fmt::join(param.shape, ","), param.trained);
    elements += static_cast<double>(parallel::num_elements(param.shape));
  }
  for (const auto& block : model.blocks) all += block.name + "\n";
  return fmt::format("{:.1f}M parameters in {} blocks ({:016x})", elements / 1e6,
                     model.blocks.size(), checksum(all.data(), all.size(), 1, 0));
}

std::string rows_text(const options::TrainingArguments& arguments, const dataset::Dataset& data) {
  const UsualBatches batches(arguments, data, 1);
  std::vector<std::string> parts;
  for (const auto& [name, tensor] : batches.longest(1).inputs) {
    parts.push_back(fmt::format("{} [{}]", name, fmt::join(tensor.sizes(), ",")));
  }
  if (batches.vary()) {
    parts.push_back(fmt::format("{:.1f} positions on average", batches.mean_length(1)));
  }
  return join(parts);
}

Json to_json(const SumTimes& sums) {
  return {{"seconds", sums.seconds}, {"seconds_per_byte", sums.seconds_per_byte}};
}

SumTimes sums_from_json(const Json& json) {
  return {value_from<double>(json.at("seconds")), value_from<double>(json.at("seconds_per_byte"))};
}

/// Shares of a micro-batch, by tensor and context ranks, that the model takes; context ranks split
/// single rows only.
std::vector<BlockShare> shares_of(const parallel::ModelFactory& factory,
                                  const parallel::ReplicaOptions& options,
                                  const parallel::MicroBatch& batch, int num_ranks,
                                  int64_t most_rows) {
  const auto model = nn::declare(factory());
  const int64_t most_context = most_context_ranks(batch);
  std::vector<BlockShare> out;
  for (int ranks = 1; ranks <= num_ranks; ++ranks) {
    if (num_ranks % ranks != 0) continue;
    for (int context = 1; context <= ranks; ++context) {
      if (ranks % context != 0 || context > most_context) continue;
      for (const bool sequence : {false, true}) {
        BlockShare share{.tensor = ranks / context, .context = context, .sequence = sequence};
        if (sequence && share.tensor == 1) continue;
        try {
          check_share(model, options.parallelism, options.facts(), share);
        } catch (const UsageError&) {
          continue;
        }
        for (; share.rows <= (context > 1 ? 1 : most_rows); share.rows *= 2) out.push_back(share);
      }
    }
  }
  return out;
}

}  // namespace

ProfiledFor profiled_for(const parallel::ModelFactory& factory,
                         const options::TrainingArguments& arguments, const dataset::Dataset& data,
                         int num_ranks) {
  const auto host = machine::read_host();
  return {.machine = fmt::format("{}, {}", host.cpu, plural(machine::usable_cores(), "core")),
          .torch = TORCH_VERSION,
          .model = model_text(nn::declare(factory())),
          .rows = rows_text(arguments, data),
          .precision = arguments.bf16   ? "bf16"
                       : arguments.fp16 ? "fp16"
                                        : "fp32",
          .optim = arguments.optim,
          .options = arguments.parallel.task_options,
          .threads = at::get_num_threads(),
          .ranks = num_ranks};
}

Profile measure_profile(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
                        const dataset::Dataset& data, const ProfiledRanks& ranks,
                        const ProgressFn& progress) {
  arguments.parallel.parallelism.pipeline.costs.clear();  // which is what this is for
  const auto& sums = ranks.sums;
  const int ranks_here = ranks.number / (sums ? sums->num_hosts : 1);
  const auto threads =
      ranks.threads > 0 ? ranks.threads : static_cast<int>(arguments.parallel.threads);
  at::set_num_threads(threads > 0 ? threads : machine::cores_per_rank(ranks_here));
  Profile out{.of = profiled_for(factory, arguments, data, ranks.number)};
  for (const auto& block : nn::declare(factory()).blocks) out.names.push_back(block.name);
  constexpr int64_t kMost = 64;
  BlockCosts costs(
      factory, arguments, data,
      {.sizes = sizes_to_run(kMost), .neighbours = ranks_here, .always = kMeasuredRows});
  const auto options = job::any_split_options(arguments);
  const auto shares =
      shares_of(factory, options, first_batch(arguments, data, 1), ranks.number, kMost);
  const auto all = static_cast<int64_t>(shares.size() + 3);
  int64_t done = 0;
  const auto step = [&] {
    if (progress) progress(++done, all);
  };
  for (const auto& share : shares) {
    costs.of(share);
    step();
  }
  out.blocks = costs.known();
  out.spread = costs.spread();
  out.update_seconds = seconds_of_update(arguments, ranks_here);
  out.accumulate_seconds = seconds_of_accumulate(ranks_here);
  step();
  out.sums = sums ? *sums : time_sums_of_threads(ranks_here);
  step();
  const auto& folder = arguments.parallel.parallelism.offload.folder;
  if (!folder.empty()) out.disk_rate = disk_bytes_per_second(folder, ranks_here);
  step();
  return out;
}

std::vector<std::string> spread_warnings(double spread) {
  constexpr double kMuch = 0.15;
  if (spread <= kMuch) return {};
  return {fmt::format(
      "warning: times of the same work differed by {:.0f} %: something else uses this host, or its "
      "speed changes; measure again, or try plans with convoy plan --verify 3",
      100 * spread)};
}

Json to_json(const Profile& profile) {
  Json of, measured = Json::array();
  for (const auto& [name, field] : kProfileTexts) of[name] = profile.of.*field;
  for (const auto& [name, field] : kProfileNumbers) of[name] = profile.of.*field;
  of["options"] = profile.of.options;
  for (const auto& [share, costs] : profile.blocks) {
    Json blocks;
    for (size_t b = 0; b < costs.size(); ++b) {
      Json block;
      for (const auto& [name, field] : kProfileSeconds) block[name] = costs[b].*field;
      for (const auto& [name, field] : kProfileBytes) block[name] = costs[b].*field;
      blocks[profile.names.at(b)] = std::move(block);
    }
    measured.push_back({{"rows", share.rows},
                        {"tensor_ranks", share.tensor},
                        {"context_ranks", share.context},
                        {"sequence_parallel", share.sequence},
                        {"blocks", blocks}});
  }
  return {{"profile", of},
          {"names", profile.names},
          {"spread", profile.spread},
          {"update_seconds", profile.update_seconds},
          {"accumulate_seconds", profile.accumulate_seconds},
          {"hosts", profile.sums.num_hosts},
          {"sums_inside", to_json(profile.sums.inside)},
          {"sums", to_json(profile.sums.all)},
          {"disk_bytes_per_second", profile.disk_rate},
          {"micro_batches", measured}};
}

bool is_profile(const Json& json) {
  return json.is_object() && json.contains("profile") && json.contains("micro_batches");
}

Profile profile_from_json(const Json& json, const std::string& file) try {
  constexpr int64_t kMostRows = 1 << 20;
  if (!is_profile(json)) {
    fail<FileError>("train", "{} is no profile; expected a file of convoy profile", file);
  }
  Profile out;
  const auto& of = json.at("profile");
  for (const auto& [name, field] : kProfileTexts) out.of.*field = of.at(name).get<std::string>();
  for (const auto& [name, field] : kProfileNumbers)
    out.of.*field = value_from<int64_t>(of.at(name));
  out.of.options = of.at("options").get<std::vector<std::string>>();
  out.names = json.at("names").get<std::vector<std::string>>();
  out.spread = value_at(json, "spread", 0.0);
  read_value(json.at("update_seconds"), out.update_seconds);
  read_value(json.at("accumulate_seconds"), out.accumulate_seconds);
  out.sums = {value_from<int>(json.at("hosts")), sums_from_json(json.at("sums_inside")),
              sums_from_json(json.at("sums"))};
  const int64_t hosts = out.sums.num_hosts;
  if (hosts < 1 || out.of.ranks < hosts || out.of.ranks % hosts != 0) {
    fail<FileError>("train", "{} says that {} are on {}; expected as many on each", file,
                    plural(out.of.ranks, "rank"), plural(hosts, "host"));
  }
  if ((out.of.ranks > hosts && out.sums.inside.seconds_per_byte <= 0) ||
      (hosts > 1 && out.sums.all.seconds_per_byte <= 0)) {
    fail<FileError>("train", "{} says that sums over ranks take no time; expected more", file);
  }
  out.disk_rate = value_at(json, "disk_bytes_per_second", 0.0);
  for (const auto& [number, what] : {std::pair{out.spread, "spread"},
                                     {out.update_seconds, "update_seconds"},
                                     {out.accumulate_seconds, "accumulate_seconds"},
                                     {out.disk_rate, "disk_bytes_per_second"},
                                     {out.sums.inside.seconds, "sums_inside.seconds"},
                                     {out.sums.all.seconds, "sums.seconds"}}) {
    if (number >= 0) continue;
    fail<FileError>("train", "{} says that {} is {}; expected none below 0", file, what, number);
  }
  if (out.names.empty()) fail<FileError>("train", "{} has no costs of any block", file);
  for (const auto& one : json.at("micro_batches")) {
    auto& costs = out.blocks[{
        value_from<int64_t>(one.at("rows")), value_from<int>(one.at("tensor_ranks")),
        value_from<int>(one.at("context_ranks")), one.at("sequence_parallel").get<bool>()}];
    if (const auto rows = value_from<int64_t>(one.at("rows")); rows < 1 || rows > kMostRows) {
      fail<FileError>("train", "{} has costs of {} rows; expected 1 to {}", file, rows, kMostRows);
    }
    for (const auto& name : out.names) {
      const auto& block = one.at("blocks").at(name);
      auto& cost = costs.emplace_back();
      const auto read = [&](const char* key, auto& into) {
        read_value(block.at(key), into);
        if (into >= 0) return;
        fail<FileError>("train", "{} says that {} of {} is {}; expected none below 0", file, key,
                        name, into);
      };
      for (const auto& [key, field] : kProfileSeconds) read(key, cost.*field);
      for (const auto& [key, field] : kProfileBytes) read(key, cost.*field);
    }
  }
  if (out.blocks.empty()) fail<FileError>("train", "{} has no costs of any block", file);
  return out;
} catch (const Json::exception& error) {
  fail<FileError>("train", "{} is no whole profile: {}; make it anew with convoy profile", file,
                  json_trouble(error));
}

void check_profile(const ProfiledFor& of, const ProfiledFor& now, const std::string& file) {
  const auto refuse = [&](const std::string& what, const auto& then, const auto& today) {
    fail<UsageError>("train",
                     "{} was measured {} {}, and this is {}; measure it anew with convoy profile",
                     file, what, then, today);
  };
  if (of.machine != now.machine) refuse("on", of.machine, now.machine);
  if (of.torch != now.torch) refuse("with torch", of.torch, now.torch);
  if (of.model != now.model) refuse("of", of.model, now.model);
  if (of.rows != now.rows) refuse("with rows of", of.rows, now.rows);
  for (size_t n = 0; n < std::max(of.options.size(), now.options.size()); ++n) {
    const auto line = [&](const auto& lines) { return n < lines.size() ? lines[n] : "less"; };
    if (line(of.options) != line(now.options)) {
      refuse("with", line(of.options), line(now.options));
    }
  }
  if (of.precision != now.precision) refuse("in", of.precision, now.precision);
  if (of.optim != now.optim) refuse("with optim =", of.optim, now.optim);
  if (of.ranks != now.ranks) refuse("for", plural(of.ranks, "rank"), plural(now.ranks, "rank"));
  if (of.threads != now.threads) {
    refuse("with", plural(of.threads, "thread") + " a rank", plural(now.threads, "thread"));
  }
}

void check_names(const Profile& profile, const parallel::ModelDecl& model,
                 const std::string& file) {
  std::vector<std::string> names;
  for (const auto& block : model.blocks) names.push_back(block.name);
  if (names == profile.names) return;
  fail<UsageError>("train", "{} is a profile of another model: of {}", file, profile.of.model);
}

std::vector<parallel::BlockCounts> counts_of(const Profile& profile, int64_t rows, int tensor,
                                             const parallel::ModelDecl& model,
                                             const std::string& file) {
  check_names(profile, model, "pipeline_costs = " + file);
  return parallel::counts_of(BlockCosts(profile.blocks, file, profile.spread).of({rows, tensor}));
}

}  // namespace convoy::planner
