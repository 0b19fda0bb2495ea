#include <string>
#include <utility>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/comm/engine_registry.h"
#include "convoy/schedule/pipeline/pipeline.h"
#include "convoy/train/setup/arguments.h"
#include "convoy/train/setup/option_texts.h"

// The options of [parallel].
namespace convoy::train {

namespace {

std::vector<std::pair<std::string, schedule::PipelineSchedule>> schedules() {
  std::vector<std::pair<std::string, schedule::PipelineSchedule>> out;
  for (const auto* entry : schedule::pipeline_schedules()) {
    out.emplace_back(entry->name, entry);
  }
  return out;
}

std::vector<std::pair<std::string, std::optional<schedule::Placement>>> placements() {
  using schedule::Placement;
  return {{"auto", std::nullopt},
          {name_of(Placement::Loop), Placement::Loop},
          {name_of(Placement::V), Placement::V}};
}

std::vector<std::string> or_auto(std::vector<std::string> names) {
  names.insert(names.begin(), "auto");
  return names;
}

}  // namespace

std::vector<std::pair<std::string, schedule::Place>> offload_places() {
  std::vector<std::pair<std::string, schedule::Place>> out;
  for (const auto place : {schedule::Place::Device, schedule::Place::Cpu, schedule::Place::Disk}) {
    out.emplace_back(name_of(place), place);
  }
  return out;
}

void ParallelArguments::declare(OptionTable& t) {
  const char* const s = "parallel";
  t.add(s, "strategy", strategy,
        "auto, one device, DataParallel, DistributedDataParallel, or the fastest plan that convoy "
        "plan finds for these ranks, saved with the run")
      .choice({"auto", "single", "dp", "ddp", "plan"})
      .differs();
  t.add(s, "replicas", replicas,
        "DataParallel replicas, or replicas of each stage if stages are threads; they may share a "
        "GPU; 0 = as many as the GPUs allow, or with strategy dp two on the CPU")
      .within(0, 1024)
      .differs();
  t.add(s, "dp_batch", dp_batch,
        "whether batch size options count rows per device, or in total over DataParallel's devices")
      .choice({"per_device", "total"})
      .differs();
  t.add(s, "backend", backend,
        "backend for collectives between processes; auto = nccl for GPUs, shared memory within a "
        "host, Gloo between hosts")
      .choice(or_auto(comm::engine_names()))
      .alias("ddp_backend");
  t.add(s, "pipeline_parallel_size", mesh.pipeline,
        "pipeline stages, one rank each, over which the model's blocks are split; further ranks "
        "are data-parallel. gradient_accumulation_steps is the number of micro-batches. Without a "
        "launcher and --nproc the stages are threads of one process")
      .within(1, 1024)
      .alias("pp_size");
  t.add(s, "pipeline_schedule", pipeline.schedule, schedules(),
        schedule::pipeline_schedules_help());
  t.add(s, "pipeline_virtual_stages", pipeline.virtual_stages,
        "virtual stages per rank, if the schedule has several; with auto the maximum")
      .within(1, 64);
  t.add(s, "pipeline_placement", pipeline.placement, placements(),
        "virtual stages of rank s: s, s + P and so on (loop), or of two the s-th and the s-th last "
        "(v), so that the first rank has the first and the last; default: the faster one");
  t.add(s, "pipeline_splits", block_numbers(pipeline.splits),
        "numbers of the blocks at which (virtual) stages after the first begin: 4,8; default: "
        "minimise the cost of the slowest stage");
  t.add(s, "pipeline_memory", memory_size("pipeline_memory", pipeline.memory),
        "memory that a stage may keep for backward, such as 4GiB: pipeline_schedule = auto finds a "
        "schedule within it, any other must fit; default: with auto as much as 1f1b keeps");
  t.add(s, "pipeline_schedule_file", pipeline.file,
        "custom schedule in the CSV format of torch.distributed.pipelining (0F0, 1I0, 1W0, 1B0), "
        "one line per rank; rank 0 reads it")
      .path()
      .differs(/*if_given=*/true);
  t.add(s, "pipeline_costs", pipeline.costs,
        "JSON file with the costs of each block, by its name: forward, backward, weight (seconds), "
        "kept, put_off (bytes), or a file of convoy profile; default: costs are counted; rank 0 "
        "reads it")
      .path()
      .differs(/*if_given=*/true);
  t.add(s, "recompute_layers", layers_to_recompute(recomputed),
        "blocks that keep only their inputs and are recomputed in backward: a number, one for each "
        "stage (2,1,1,0), or auto: the fewest with which pipeline_memory suffices");
  t.add(s, "tensor_parallel_size", mesh.tensor,
        "tensor-parallel ranks: they split the weights of each layer (heads, inner units, "
        "vocabulary) and compute the same rows together; for ranks of one host")
      .within(1, 1024)
      .alias("tp_size");
  t.add(s, "sequence_parallel", sequence_parallel,
        "tensor-parallel ranks also split the tokens between a layer's matrix products (norms, "
        "dropout and residuals), as in Megatron-LM; less activation memory");
  t.add(s, "context_parallel_size", mesh.context,
        "context-parallel ranks: they split the positions of each row (ring attention); for rows "
        "too long for one rank")
      .within(1, 1024)
      .alias("cp_size");
  t.add(s, "threads", threads,
        "intra-op threads per rank; 0 = OMP_NUM_THREADS, or the cores divided by the ranks")
      .within(0, 1024)
      .differs();
  t.add_mib(s, "bucket_cap_mb", bucket_bytes, "size of the buckets for gradient reduction")
      .at_least(0)
      .alias("ddp_bucket_cap_mb");
  t.add(s, "zero", zero,
        "ZeRO stage: each rank keeps only its shard of the optimizer state (1), also of gradients "
        "(2), also of weights (3)")
      .within(0, 3)
      .alias("zero_stage");
  t.add(s, "prefetch", gathers.prefetch,
        "buckets of bucket_cap_mb that zero = 3 gathers ahead of their use")
      .within(0, 64)
      .only_with("zero", {"3"});
  t.add(s, "reshard_after_forward", gathers.reshard_after_forward,
        "zero = 3 frees gathered weights after forward and gathers them again for backward")
      .only_with("zero", {"3"});
  t.add_mib(s, "zero_keep_mb", keep_bytes,
            "zero = 3 keeps the weights of buckets below this size unsharded: they are gathered "
            "once, after their update")
      .within(0, 1 << 20)
      .only_with("zero", {"3"});
  t.add(s, "zero_reduce", reduce_each, {{"each", true}, {"last", false}},
        "zero = 2 and 3 reduce gradients over the ranks after each micro-batch, or keep them "
        "unsharded until the last")
      .only_with("zero", {"2", "3"});
  t.add(s, "shard_ranks", mesh.shard,
        "ranks over which ZeRO shards: all, host (hybrid sharding), or a number; gradients are "
        "all-reduced between such groups")
      .only_with("zero", {"1", "2", "3"});
  t.add(s, "row_tables", row_tables,
        "shard tables of which a step reads only some rows (items, with sampled_softmax or "
        "loss = gbce) by rows, "
        "row r on rank r mod N: only rows that are read are gathered, reduced and updated; other "
        "rows catch up on missed updates when they are read");
  t.add(s, "offload_optimizer", offload.optimizer, offload_places(),
        "where to keep the optimizer states and the master weights of 16-bit training: on the "
        "device, in a GPU's host memory, or on disk; one bucket of them is in memory at a time");
  t.add(s, "offload_gradients", offload.gradients, offload_places(),
        "the same for the shards of gradients; needs zero = 2 or 3");
  t.add(s, "offload_parameters", offload.parameters, offload_places(),
        "the same for the shards of weights; needs zero = 3");
  t.add(s, "offload_dir",
        {[this] { return offload.folder.string(); },
         [this](const std::string& text) { offload.folder = text; }},
        "folder on a disk of each host for state offloaded to disk; nothing is left there")
      .differs();
  t.add(s, "device_memory", memory_size("device_memory", device_memory),
        "limit on the memory of a rank's tensors on its device, such as 6GB, if below the device's "
        "own: plans and estimates stay within it, and on the CPU a training that would exceed it "
        "ends; default: the device's memory");
  t.add(s, "timeout", timeout,
        "timeout in seconds for connecting the ranks, and for each collective")
      .within(1, 100'000'000)
      .alias("ddp_timeout")
      .differs();
  t.add(s, "device", device, "device to compute on").choice({"auto", "cpu", "cuda"}).differs();
  t.add(s, "planned_ranks", planned.ranks,
        "ranks that convoy plan --output planned this run for: others are refused; 0 = it was not "
        "planned")
      .at_least(0);
  t.add(s, "planned_split", planned.split, "the parallelism that it planned");
  t.add(s, "planned_step_seconds", planned.seconds, "the step time that it predicted").at_least(0);
  t.add(s, "planned_memory_bytes", planned.memory_bytes,
        "the memory that it predicted for the rank that needs most")
      .at_least(0);
  t.add(s, "planned_device", planned.device,
        "the kind of device that it planned for; none = that of the host where it planned");
}

}  // namespace convoy::train
