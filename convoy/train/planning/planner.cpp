#include "convoy/train/planning/planner.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/machine/cores.h"
#include "convoy/nn/declare.h"
#include "convoy/profile/trace.h"
#include "convoy/train/planning/block_costs.h"
#include "convoy/train/planning/profile_file.h"
#include "convoy/train/planning/room.h"
#include "convoy/train/planning/this_host.h"
#include "convoy/train/setup/batch.h"
#include "convoy/train/setup/from_arguments.h"

namespace convoy::train {

namespace {

/// Rows of a micro-batch; those beyond keep a processor's core no busier, but a GPU.
constexpr int64_t kMostRowsHere = 64, kMostRowsElsewhere = 1024;
/// Of predictions from times that do not differ, and from data sheets (see docs/planning.md).
constexpr double kMeasuredSpread = 0.1, kAnalyticSpread = 0.35;
/// Bytes that an update reads and writes of a weight: weight, gradient, two moments, and a norm.
constexpr double kUpdateBytes = 32;

plan::Cluster hosts_of(const PlanRequest& request, int num_ranks) {
  if (!request.sums) return this_host(num_ranks);
  return hosts_like_this(request.num_hosts, num_ranks / request.num_hosts, *request.sums);
}

plan::Cluster cluster_of(const PlanRequest& request, int num_ranks, int64_t memory_bytes) {
  if (!request.cluster_file.empty() && !request.device.empty()) {
    fail<UsageError>("train", "--cluster and --on both say what the devices are; try one of them");
  }
  auto out = request.gpus                    ? *request.gpus
             : !request.cluster_file.empty() ? plan::read_cluster(request.cluster_file)
             : !request.device.empty()       ? plan::usual_cluster(request.device, num_ranks)
                                             : hosts_of(request, num_ranks);
  if (memory_bytes > 0) {
    const auto limit = memory_bytes + out.reserved_bytes;
    out.device.memory_bytes = std::min(out.device.memory_bytes, limit);
    for (auto& device : out.each) device.memory_bytes = std::min(device.memory_bytes, limit);
  }
  if (num_ranks > out.num_devices()) {
    fail<UsageError>("train", "--ranks {} on a cluster of {}; try --ranks {}", num_ranks,
                     plural(out.num_devices(), "device"), out.num_devices());
  }
  if (out.device.memory_bytes <= out.reserved_bytes) {
    fail<UsageError>("train",
                     "a device's memory of {} is no more than what a process takes beside "
                     "tensors ({}); try more",
                     human_bytes(out.device.memory_bytes), human_bytes(out.reserved_bytes));
  }
  return out;
}

/// Of a cluster that is this host, or others like it.
void measure_disk(plan::Cluster& cluster, const std::filesystem::path& folder,
                  const std::optional<Profile>& profile, const std::string& file) {
  if (folder.empty()) return;
  if (profile && profile->disk_rate == 0) {
    fail<UsageError>("train",
                     "{} was measured without offload_dir = {}; measure it anew with convoy "
                     "profile --offload_dir {}",
                     file, folder.string(), folder.string());
  }
  cluster.disk_bytes_per_second =
      profile ? profile->disk_rate : disk_bytes_per_second(folder, cluster.devices_per_host);
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (!error) cluster.disk_bytes = static_cast<int64_t>(space.available);
}

int ranks_of(const PlanRequest& request) {
  if (request.num_ranks > 0) return request.num_ranks;
  if (!request.cluster_file.empty()) return plan::read_cluster(request.cluster_file).num_devices();
  return request.device.empty() ? machine::usable_cores() : 1;
}

void check_arguments(const TrainingArguments& arguments) {
  const auto& parallel = arguments.parallel;
  if (parallel.strategy == "dp" || parallel.replicas > 1) {
    fail<UsageError>("train",
                     "plan is of a process for each rank; try without --strategy dp and "
                     "--replicas");
  }
}

/// The profile that is asked for, which must be of this run.
std::optional<Profile> read_profile(const parallel::ModelFactory& factory,
                                    const TrainingArguments& arguments, const Dataset& data,
                                    const PlanRequest& request, int num_ranks) {
  const auto& file = request.profile;
  if (file.empty()) return std::nullopt;
  if (!request.cluster_file.empty() || !request.device.empty()) {
    fail<UsageError>("train",
                     "--profile {} was measured on a processor; it does not go with --cluster and "
                     "--on",
                     file);
  }
  auto out = profile_from_json(parse_json(read_file(file), file), file);
  check_profile(out.of, profiled_for(factory, arguments, data, num_ranks), file);
  return out;
}

/// What pipeline_costs has.
std::vector<schedule::BlockCounts> costs_from_file(const parallel::ModelFactory& factory,
                                                   TrainingArguments arguments, const Dataset& data,
                                                   const std::string& file) {
  arguments.parallel.pipeline.costs = file;
  arguments.parallel.mesh.pipeline = 2;  // any number of stages reads it
  arguments.parallel.pipeline.file.clear();
  return pipeline_inputs(factory, arguments, &data).counts;
}

/// Of micro-batches of at most so many rows. `neighbours`: ranks of this host; 0: of other devices.
std::shared_ptr<BlockCosts> costs_by_running(const parallel::ModelFactory& factory,
                                             const TrainingArguments& arguments,
                                             const Dataset& data, const PlanRequest& request,
                                             int64_t most, int neighbours) {
  const bool here = neighbours > 0;
  const auto sizes = !request.sizes.empty()
                         ? request.sizes
                         : sizes_to_run(here ? most : std::min<int64_t>(most, 2));
  if (here) {
    const int64_t always = request.sizes.empty() ? kMeasuredRows : sizes.back();
    return std::make_shared<BlockCosts>(factory, arguments, data, sizes, neighbours, 0, always);
  }
  const auto gpu_rows = std::min<int64_t>(most, 8);
  const auto run = [&] {
    return std::make_shared<BlockCosts>(factory, arguments, data, sizes, 1, gpu_rows);
  };
  if (!request.traced) return run();
  auto& known = (*request.traced)[{sizes, gpu_rows}];
  if (!known) known = run();
  return known;
}

std::string memory_text(const plan::Cluster& cluster) {
  if (cluster.each.empty()) return human_bytes(cluster.device.memory_bytes);
  const auto [least, most] = std::minmax_element(
      cluster.each.begin(), cluster.each.end(),
      [](const auto& a, const auto& b) { return a.memory_bytes < b.memory_bytes; });
  return fmt::format("{} to {}", human_bytes(least->memory_bytes), human_bytes(most->memory_bytes));
}

}  // namespace

PlanReport prepare_plan(const parallel::ModelFactory& factory, TrainingArguments arguments,
                        const Dataset& data, PlanRequest request) {
  check_arguments(arguments);
  // A run without stages would refuse it, and some plans have stages.
  const auto costs_file = std::exchange(arguments.parallel.pipeline.costs, "");
  const int num_ranks = ranks_of(request);
  PlanReport out;
  out.is_this_host = request.cluster_file.empty() && request.device.empty() && !request.gpus;
  if (request.threads > 0 || arguments.parallel.threads > 0) {
    at::set_num_threads(request.threads > 0 ? request.threads
                                            : static_cast<int>(arguments.parallel.threads));
  } else if (out.is_this_host) {
    at::set_num_threads(machine::cores_per_rank(num_ranks));
  }
  const auto profile = read_profile(factory, arguments, data, request, num_ranks);
  if (profile) request.sums = profile->sums;
  out.cluster = cluster_of(request, num_ranks, arguments.parallel.device_memory);
  if (arguments.bf16) {
    plan::check_bf16(out.cluster.device.name);
    for (const auto& device : out.cluster.each) plan::check_bf16(device.name);
  }
  if (arguments.tf32) out.cluster.use_tf32();  // of measured GPUs its rate is fp32's
  const auto& offload_dir = arguments.parallel.offload.folder;
  if (out.is_this_host || request.gpus)
    measure_disk(out.cluster, offload_dir, profile, request.profile);
  const auto blocks = factory();
  const auto replica = replica_options(arguments, true);
  auto& wishes = out.wishes;
  wishes.num_ranks = num_ranks;
  if (out.cluster.num_hosts > 1) wishes.ranks_per_host = out.cluster.devices_per_host;
  wishes.base = plan::Split().options(replica.run());
  wishes.global_batch = step_rows(arguments, num_ranks);
  wishes.most_rows = request.most_rows > 0 ? request.most_rows
                     : out.is_this_host    ? kMostRowsHere
                                           : kMostRowsElsewhere;
  wishes.takes_recompute =
      blocks.size() > 1 && std::any_of(blocks.begin(), blocks.end() - 1,
                                       [](const auto& block) { return block->repeatable(); });
  if (!out.is_this_host) wishes.offload = {schedule::Place::Cpu};
  if (!offload_dir.empty()) wishes.offload.push_back(schedule::Place::Disk);

  auto& numbers = out.numbers;
  numbers.model = nn::declare(blocks);
  const bool low = wishes.base.low_precision;
  const int64_t most = std::min(wishes.most_rows, wishes.global_batch);
  const auto check = [model = numbers.model, base = wishes.base](const plan::BlockShare& share) {
    check_share(model, base, share);
  };
  const auto batch = first_batch(arguments, data, 1);
  if (batch.empty()) fail<UsageError>("train", "the training data has no rows to plan with");
  const auto all_take = [&](auto takes) {
    return std::all_of(blocks.begin(), blocks.end(),
                       [&](const auto& block) { return ((*block).*takes)(); });
  };
  wishes.takes_sequence = all_take(&nn::Block::takes_sequence_parallel);
  if (all_take(&nn::Block::takes_context_ranks)) wishes.most_context = most_context_ranks(batch);
  const auto trace = [factory, dtype = replica.compute_dtype,
                      seed = replica.seed](const parallel::MicroBatch& of) {
    return profile::trace(factory(), of,
                          {.compute_dtype = dtype, .seed = seed, .shapes_only = true});
  };
  const auto counts = trace(batch);
  // A training cuts its stages by the same, but for a user's modules.
  if (!costs_file.empty()) {
    wishes.base.counts = costs_from_file(factory, arguments, data, costs_file);
  } else if (!numbers.model.has_modules()) {
    wishes.base.counts = counts;
  }
  const int neighbours = out.is_this_host ? out.cluster.devices_per_host : 1;
  const auto costs =
      profile ? std::make_shared<BlockCosts>(profile->blocks, request.profile, profile->spread)
              : costs_by_running(factory, arguments, data, request, most,
                                 out.is_this_host ? neighbours : 0);
  out.costs = costs;
  if (out.is_this_host) {
    out.how_known = profile ? "from " + request.profile : "measured on this host";
    numbers.time_spread = kMeasuredSpread;
    numbers.memory_spread = kMemorySpread;
    numbers.update_seconds =
        profile ? profile->update_seconds : seconds_of_update(arguments, neighbours);
    numbers.blocks = [costs, check](const plan::BlockShare& share) {
      check(share);
      return costs->of(share);
    };
  } else {
    out.how_known = request.gpus ? "from rates measured on these GPUs" : "from data sheets";
    numbers.time_spread = kAnalyticSpread;
    numbers.memory_spread = kOtherDevicesMemorySpread;
    numbers.update_seconds =
        kUpdateBytes / (out.cluster.efficiency * out.cluster.device.bytes_per_second);
    const auto batches = std::make_shared<UsualBatches>(arguments, data, most);
    const auto traced = std::make_shared<std::map<int64_t, std::vector<schedule::BlockCounts>>>();
    numbers.blocks = [costs, check, counts, trace, batches, traced, cluster = out.cluster,
                      low](const plan::BlockShare& share) {
      check(share);
      const auto& of_row = [&]() -> const std::vector<schedule::BlockCounts>& {
        if (!batches->vary()) return counts;
        auto [found, fresh] = traced->try_emplace(share.rows);
        if (fresh) found->second = trace(batches->mean(share.rows));
        return found->second;
      }();
      return on_device(costs->of(share), of_row, share, cluster, low);
    };
  }
  double parameters = 0;
  for (const auto& param : numbers.model.params) {
    parameters += static_cast<double>(schedule::num_elements(param.shape));
  }
  out.what = fmt::format(
      "{:.1f}M parameters in {} blocks, {} rows a step, {}{} of {} ({})", parameters / 1e6,
      blocks.size(), wishes.global_batch,
      out.cluster.num_hosts > 1 ? plural(out.cluster.num_hosts, "host") + " x " : "",
      plural(out.cluster.num_hosts > 1 ? out.cluster.devices_per_host : num_ranks, "device"),
      out.cluster.each.empty() ? out.cluster.device.name : "several kinds",
      memory_text(out.cluster));
  if (out.cluster.num_hosts > 1 && num_ranks < out.cluster.num_devices()) {
    out.what += fmt::format(", of which {} are used", num_ranks);
  }
  return out;
}

PlanReport make_plan(const parallel::ModelFactory& factory, TrainingArguments arguments,
                     const Dataset& data, PlanRequest request, const ProgressFn& progress) {
  auto out = prepare_plan(factory, std::move(arguments), data, std::move(request));
  out.found = plan::search(out.numbers, out.cluster, out.wishes, [&](size_t done, size_t all) {
    if (progress) progress(static_cast<int64_t>(done), static_cast<int64_t>(all));
  });
  if (out.is_this_host) out.numbers.time_spread = kMeasuredSpread + out.costs->spread();
  return out;
}

}  // namespace convoy::train
