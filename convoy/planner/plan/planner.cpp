#include "convoy/planner/plan/planner.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/job/run_options.h"
#include "convoy/machine/cores.h"
#include "convoy/nn/declare.h"
#include "convoy/options/batch.h"
#include "convoy/parallel/knobs.h"
#include "convoy/parallel/refuse.h"
#include "convoy/planner/cost/block_costs.h"
#include "convoy/planner/cost/other_devices.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/planner/cost/profile_file.h"
#include "convoy/planner/cost/trace.h"
#include "convoy/planner/devices/memory_budget.h"
#include "convoy/planner/devices/this_host.h"
#include "convoy/planner/estimate/memory_copies_bytes.h"

namespace convoy::planner {

namespace {

/// Largest numbers of rows of a micro-batch to try: more keep a core of a processor no busier, but
/// a GPU.
constexpr int64_t kMostRowsHere = 64, kMostRowsElsewhere = 1024;
/// Relative errors of predictions from measured times, and from data sheets (see docs/planning.md).
constexpr double kMeasuredSpread = 0.1, kAnalyticSpread = 0.35;
/// Bytes per weight that an update moves: weight, gradient, two moments, and a norm.
constexpr double kUpdateBytes = 32;

/// Training that is planned.
struct Subject {
  const parallel::ModelFactory& factory;
  const options::TrainingArguments& arguments;
  const dataset::Dataset& data;
  parallel::ReplicaOptions replica = job::any_split_options(arguments);
};

void check_arguments(const options::TrainingArguments& arguments, bool is_here) {
  if (is_here) arguments.check_for_cpu("--on h100-80 for a plan of GPUs, or leaving it out");
  const auto& parallel = arguments.parallel;
  if (parallel.strategy == "dp" || parallel.replicas > 1) {
    fail<UsageError>("train",
                     "plan is of a process for each rank; try without --strategy dp and "
                     "--replicas");
  }
}

/// Returns the profile that is asked for.
std::optional<Profile> read_profile(const Target& where) {
  const auto* here = std::get_if<ThisHost>(&where);
  if (here == nullptr || here->profile.empty()) return std::nullopt;
  return profile_from_json(parse_json(read_file(here->profile), here->profile), here->profile);
}

/// Costs in pipeline_costs.
std::vector<parallel::BlockCounts> costs_from_file(const Subject& subject,
                                                   const std::string& file) {
  auto arguments = subject.arguments;
  arguments.parallel.parallelism.pipeline.costs = file;
  arguments.parallel.parallelism.ranks.pipeline = 2;  // any number of stages reads it
  arguments.parallel.parallelism.pipeline.file.clear();
  return pipeline_inputs(subject.factory, arguments, &subject.data).counts;
}

/// Sets the threads of a rank: the given number, the profile's, or a share of this host's cores.
void use_threads(const PlanRequest& request, const options::TrainingArguments& arguments,
                 const std::optional<Profile>& profile, int num_ranks, bool here) {
  const int64_t given = request.threads > 0              ? request.threads
                        : arguments.parallel.threads > 0 ? arguments.parallel.threads
                        : profile                        ? profile->of.threads
                                                         : 0;
  if (given > 0) {
    at::set_num_threads(static_cast<int>(given));
  } else if (here) {
    at::set_num_threads(machine::cores_per_rank(num_ranks));
  }
}

/// Limits the tensor ranks of the space to those of the model, with a training's message for more.
void limit_tensor_ranks(SearchSpace& space, const parallel::ModelDecl& model) {
  space.most_tensor = parallel::most_tensor_ranks(model);
  if (space.most_tensor >= space.num_ranks) return;
  auto beyond = static_cast<int>(space.most_tensor) + 1;
  while (space.num_ranks % beyond != 0) ++beyond;
  try {
    check_share(model, space.base, space.facts, {.tensor = beyond});
  } catch (const UsageError& error) {
    space.beyond_tensor = error.what();
  }
}

/// Search space of a plan, but for the counts that cut stages.
SearchSpace search_space_of(const Subject& subject, const PlanRequest& request,
                            const Cluster& cluster, const nn::BlockList& blocks,
                            const parallel::ModelDecl& model, const parallel::MicroBatch& batch,
                            int num_ranks) {
  const bool here = std::holds_alternative<ThisHost>(request.where);
  const auto all_take = [&](auto takes) {
    return std::all_of(blocks.begin(), blocks.end(),
                       [&](const auto& block) { return ((*block).*takes)(); });
  };
  SearchSpace out;
  out.num_ranks = num_ranks;
  if (cluster.num_hosts > 1) out.ranks_per_host = cluster.devices_per_host;
  out.base = parallel::undecided(subject.arguments.parallel.parallelism);
  out.facts = subject.replica.facts();
  out.global_batch = options::step_rows(subject.arguments, num_ranks);
  out.most_rows = request.most_rows > 0 ? request.most_rows
                  : here                ? kMostRowsHere
                                        : kMostRowsElsewhere;
  out.takes_recompute =
      blocks.size() > 1 && std::any_of(blocks.begin(), blocks.end() - 1,
                                       [](const auto& block) { return block->repeatable(); });
  out.takes_sequence = all_take(&nn::Block::takes_sequence_parallel);
  if (all_take(&nn::Block::takes_context_ranks)) out.most_context = most_context_ranks(batch);
  out.num_experts = parallel::common_experts(model);
  out.most_stages = std::ssize(blocks);
  limit_tensor_ranks(out, model);
  if (!here) out.offload = {parallel::Place::Cpu};
  if (parallel::has_disk(out.base.offload)) out.offload.push_back(parallel::Place::Disk);
  return out;
}

/// Costs that are measured by running the blocks for micro-batches of at most `rows`, on as many
/// ranks as a host has.
std::shared_ptr<BlockCosts> measured_costs(const Subject& subject, const PlanRequest& request,
                                           int64_t most, int ranks_per_host) {
  const auto sizes = request.sizes.empty() ? sizes_to_run(most) : request.sizes;
  const int64_t always = request.sizes.empty() ? kMeasuredRows : sizes.back();
  return std::make_shared<BlockCosts>(
      subject.factory, subject.arguments, subject.data,
      MeasureOptions{.sizes = sizes, .neighbours = ranks_per_host, .always = always});
}

/// Costs that are counted by running the blocks without arithmetic, or that earlier plans have
/// counted.
std::shared_ptr<BlockCosts> traced_costs(const Subject& subject, const PlanRequest& request,
                                         int64_t most) {
  const auto sizes =
      request.sizes.empty() ? sizes_to_run(std::min<int64_t>(most, 2)) : request.sizes;
  const auto run = [&] {
    return std::make_shared<BlockCosts>(
        subject.factory, subject.arguments, subject.data,
        MeasureOptions{.sizes = sizes, .neighbours = 1, .for_gpu = true});
  };
  if (!request.traced) return run();
  auto& known = (*request.traced)[sizes];
  if (!known) known = run();
  return known;
}

/// Costs of each block for a row of a micro-batch.
using Counts = std::vector<parallel::BlockCounts>;
using Trace = std::function<Counts(const parallel::MicroBatch&)>;

Trace trace_of(const Subject& subject) {
  return [factory = subject.factory, dtype = subject.replica.compute_dtype,
          seed = subject.replica.seed](const parallel::MicroBatch& of) {
    return trace(factory(), of, {.compute_dtype = dtype, .seed = seed, .shapes_only = true});
  };
}

/// Counts for a row of the average micro-batch: `usual` where rows are alike, else of micro-batches
/// with as many rows, each traced once.
class CountsOfRow {
 public:
  CountsOfRow(const Subject& subject, Counts usual, int64_t most_rows)
      : usual_(std::move(usual)),
        trace_(trace_of(subject)),
        batches_(subject.arguments, subject.data, most_rows) {}

  const Counts& of(int64_t rows) {
    if (!batches_.vary()) return usual_;
    auto [found, fresh] = known_.try_emplace(rows);
    if (fresh) found->second = trace_(batches_.mean(rows));
    return found->second;
  }

 private:
  Counts usual_;
  Trace trace_;
  UsualBatches batches_;
  std::map<int64_t, Counts> known_;
};

using CostsOfShare = std::function<std::vector<BlockCost>(const BlockShare&)>;

/// Wraps costs so that shares which the model does not take throw.
CostsOfShare checked(CostsOfShare costs, const SearchSpace& space,
                     const parallel::ModelDecl& model) {
  return [costs = std::move(costs), model, base = space.base,
          facts = space.facts](const BlockShare& share) {
    check_share(model, base, facts, share);
    return costs(share);
  };
}

/// Fills in costs and times that are measured on this host.
void set_measured(PlanReport& report, const Subject& subject, const PlanRequest& request,
                  const std::optional<Profile>& profile, int64_t most) {
  const auto& file = std::get<ThisHost>(request.where).profile;
  const int neighbours = report.cluster.devices_per_host;
  auto& numbers = report.numbers;
  report.costs = profile ? std::make_shared<BlockCosts>(profile->blocks, file, profile->spread)
                         : measured_costs(subject, request, most, neighbours);
  report.how_known = profile ? "from " + file : "measured on this host";
  numbers.time_spread = kMeasuredSpread;
  numbers.memory_spread = kMemorySpread;
  numbers.update_seconds =
      profile ? profile->update_seconds : seconds_of_update(subject.arguments, neighbours);
  numbers.accumulate_seconds =
      profile ? profile->accumulate_seconds : seconds_of_accumulate(neighbours);
  numbers.blocks = [costs = report.costs](const auto& share) { return costs->of(share); };
}

/// Fills in costs that are counted, with times from the devices' rates.
void set_counted(PlanReport& report, const Subject& subject, const PlanRequest& request,
                 const Counts& of_row, int64_t most) {
  auto& cluster = report.cluster;
  auto& numbers = report.numbers;
  report.costs = traced_costs(subject, request, most);
  report.how_known = std::get<Devices>(request.where).how_known;
  numbers.time_spread = kAnalyticSpread;
  numbers.memory_spread = kOtherDevicesMemorySpread;
  numbers.update_seconds = kUpdateBytes / (cluster.efficiency * cluster.device.bytes_per_second);
  if (!cluster.each.empty()) {
    const BlockShare share{
        .rows = std::clamp<int64_t>(report.space.global_batch / report.space.num_ranks, 1, most)};
    cluster.speeds = speeds_of_devices(report.costs->of(share), of_row, share, cluster,
                                       report.space.facts.low_precision);
  }
  numbers.blocks =
      [costs = report.costs, cluster, low = report.space.facts.low_precision,
       counts = std::make_shared<CountsOfRow>(subject, of_row, most)](const BlockShare& share) {
        return on_device(costs->of(share), counts->of(share.rows), share, cluster, low);
      };
}

std::string memory_text(const Cluster& cluster) {
  if (cluster.each.empty()) return human_bytes(cluster.device.memory_bytes);
  const auto [least, most] = std::minmax_element(
      cluster.each.begin(), cluster.each.end(),
      [](const auto& a, const auto& b) { return a.memory_bytes < b.memory_bytes; });
  return fmt::format("{} to {}", human_bytes(least->memory_bytes), human_bytes(most->memory_bytes));
}

std::string what_text(const ModelCosts& numbers, const Cluster& cluster, const SearchSpace& space) {
  double parameters = 0;
  for (const auto& param : numbers.model.params) {
    parameters += static_cast<double>(parallel::num_elements(param.shape));
  }
  const bool several = cluster.num_hosts > 1;
  auto out = fmt::format("{:.1f}M parameters in {} blocks, {} rows a step, {}{} of {} ({})",
                         parameters / 1e6, numbers.model.blocks.size(), space.global_batch,
                         several ? plural(cluster.num_hosts, "host") + " x " : "",
                         plural(several ? cluster.devices_per_host : space.num_ranks, "device"),
                         cluster.each.empty() ? cluster.device.name : "several kinds",
                         memory_text(cluster));
  if (several && space.num_ranks < cluster.num_devices()) {
    out += fmt::format(", of which {} are used", space.num_ranks);
  }
  return out;
}

}  // namespace

PlanReport prepare_plan(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
                        const dataset::Dataset& data, const PlanRequest& request) {
  check_arguments(arguments, std::holds_alternative<ThisHost>(request.where));
  // A run without stages would refuse it, and some plans have stages.
  const auto costs_file = std::exchange(arguments.parallel.parallelism.pipeline.costs, "");
  const Subject subject{factory, arguments, data};
  const auto profile = read_profile(request.where);
  const int num_ranks = request.num_ranks > 0 ? request.num_ranks
                        : profile             ? static_cast<int>(profile->of.ranks)
                                              : usual_ranks(request.where);
  PlanReport out;
  out.is_like_this_host = std::holds_alternative<ThisHost>(request.where);
  use_threads(request, arguments, profile, num_ranks, out.is_like_this_host);
  if (profile) {
    check_profile(profile->of, profiled_for(factory, arguments, data, num_ranks),
                  std::get<ThisHost>(request.where).profile);
  }
  out.cluster = cluster_of(request.where, profile, num_ranks, arguments);
  const auto batch = first_batch(arguments, data, 1);
  if (batch.empty()) fail<UsageError>("train", "the training data has no rows to plan with");
  const auto blocks = factory();
  out.numbers.model = nn::declare(blocks);
  if (out.is_like_this_host) {
    out.cluster.reserved_bytes += bytes_of_memory_copies(out.numbers.model, arguments) /
                                  std::max(1, out.cluster.devices_per_host);
  }
  if (profile) {
    check_names(*profile, out.numbers.model, std::get<ThisHost>(request.where).profile);
  }
  out.space =
      search_space_of(subject, request, out.cluster, blocks, out.numbers.model, batch, num_ranks);
  const auto counts = trace_of(subject)(batch);
  // A training cuts its stages by the same, but for a user's modules.
  if (!costs_file.empty()) {
    out.space.facts.counts = costs_from_file(subject, costs_file);
  } else if (!out.numbers.model.has_modules()) {
    out.space.facts.counts = counts;
  }
  const int64_t most = std::min(out.space.most_rows, out.space.global_batch);
  if (out.is_like_this_host) {
    set_measured(out, subject, request, profile, most);
  } else {
    set_counted(out, subject, request, counts, most);
  }
  out.numbers.blocks = checked(std::move(out.numbers.blocks), out.space, out.numbers.model);
  out.what = what_text(out.numbers, out.cluster, out.space);
  return out;
}

PlanReport make_plan(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
                     const dataset::Dataset& data, const PlanRequest& request,
                     const ProgressFn& progress) {
  auto out = prepare_plan(factory, std::move(arguments), data, request);
  out.found = search(out.numbers, out.cluster, out.space, [&](size_t done, size_t all) {
    if (progress) progress(static_cast<int64_t>(done), static_cast<int64_t>(all));
  });
  if (out.is_like_this_host) out.numbers.time_spread = kMeasuredSpread + out.costs->spread();
  return out;
}

}  // namespace convoy::planner
