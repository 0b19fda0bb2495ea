#include <string>
#include <utility>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/comm/rendezvous.h"
#include "convoy/schedule/pipeline/pipeline.h"
#include "convoy/train/setup/arguments.h"
#include "convoy/train/setup/option_texts.h"

// The options of [parallel].
namespace convoy::train {

namespace {

std::vector<std::pair<std::string, schedule::PipelineSchedule>> schedules() {
  std::vector<std::pair<std::string, schedule::PipelineSchedule>> out;
  for (const auto& entry : schedule::pipeline_schedules()) {
    out.emplace_back(entry.name, entry.schedule);
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
        "auto, one device, DataParallel, DistributedDataParallel, or what convoy plan finds to be "
        "fastest on these ranks, which is kept with the run")
      .choice({"auto", "single", "dp", "ddp", "plan"})
      .differs();
  t.add(s, "replicas", replicas,
        "DataParallel replicas, or those of each stage where stages are threads, which may share a "
        "GPU; 0 = as many as there are GPUs for, or with strategy dp two on the CPU")
      .within(0, 1024)
      .differs();
  t.add(s, "dp_batch", dp_batch,
        "batch size options count rows per device, or in total over DataParallel's devices")
      .choice({"per_device", "total"})
      .differs();
  t.add(s, "backend", backend,
        "what carries collectives between processes: auto is nccl for GPUs, shared memory inside a "
        "host and Gloo between hosts")
      .choice(or_auto(comm::engine_names()))
      .alias("ddp_backend");
  t.add(
       s, "pipeline_parallel_size", mesh.pipeline,
       "stages of a pipeline, a rank each, that hold the model's blocks together; what is left of "
       "the ranks shares out the data. gradient_accumulation_steps is the number of micro-batches. "
       "Without a launcher and --nproc the stages are threads of one process")
      .within(1, 1024)
      .alias("pp_size");
  t.add(s, "pipeline_schedule", pipeline.schedule, schedules(),
        "one micro-batch at a time; all forwards before all backwards; one of each in turns (keeps "
        "fewer micro-batches); that with several virtual stages a rank (a smaller bubble); with "
        "backwards in two halves that fill the gaps; or what a simulation finds to be fastest");
  t.add(s, "pipeline_virtual_stages", pipeline.virtual_stages,
        "virtual stages that each rank holds where the schedule has several; with auto at most")
      .within(1, 64);
  t.add(s, "pipeline_placement", pipeline.placement, placements(),
        "which virtual stages a rank holds: s, s + P and so on (loop), or of two the s-th and the "
        "s-th last (v), so that the first rank begins and ends; default: the faster one");
  t.add(s, "pipeline_splits", block_numbers(pipeline.splits),
        "numbers of the blocks with which (virtual) stages begin, but the first: 4,8; "
        "default: so that the dearest costs least");
  t.add(
      s, "pipeline_memory", memory_size("pipeline_memory", pipeline.memory),
      "what a stage may keep for backward, such as 4GiB: pipeline_schedule = auto finds a schedule "
      "within it, another must fit; default: with auto as much as 1f1b keeps");
  t.add(
       s, "pipeline_schedule_file", pipeline.file,
       "a schedule to follow instead, as CSV of torch.distributed.pipelining (0F0, 1I0, 1W0, 1B0), "
       "a line a rank; rank 0 reads it")
      .path()
      .differs(/*if_given=*/true);
  t.add(s, "pipeline_costs", pipeline.costs,
        "JSON of what each block costs, by its name: forward, backward, weight (seconds), kept, "
        "put_off (bytes), or a file of convoy profile; default: it is counted; rank 0 reads it")
      .path()
      .differs(/*if_given=*/true);
  t.add(s, "recompute_layers", layers_to_recompute(recomputed),
        "blocks that keep their inputs only and run again before their backward: a number, one for "
        "each stage (2,1,1,0), or auto: the fewest that fit into pipeline_memory");
  t.add(s, "tensor_parallel_size", mesh.tensor,
        "ranks that share out the weights of each layer (heads, inner units, ids) and compute the "
        "same rows together; for neighbours on one host")
      .within(1, 1024)
      .alias("tp_size");
  t.add(
      s, "sequence_parallel", sequence_parallel,
      "tensor ranks share out the tokens between the products of a layer, too: norms, dropout and "
      "residuals; less memory for activations");
  t.add(s, "context_parallel_size", mesh.context,
        "ranks that share out the positions of each row, while keys and values go round them; for "
        "rows too long for one rank")
      .within(1, 1024)
      .alias("cp_size");
  t.add(s, "threads", threads,
        "threads per rank inside operations; 0 = OMP_NUM_THREADS "
        "or the cores shared out")
      .within(0, 1024)
      .differs();
  t.add_mib(s, "bucket_cap_mb", bucket_bytes, "gradients are summed in pieces of this size")
      .at_least(0)
      .alias("ddp_bucket_cap_mb");
  t.add(s, "zero", zero,
        "stage of ZeRO: each rank keeps only its shard of the optimizer's state (1), of gradients "
        "too (2), of weights too (3)")
      .within(0, 3)
      .alias("zero_stage");
  t.add(s, "prefetch", gathers.prefetch,
        "pieces of bucket_cap_mb that zero = 3 gathers ahead of their use")
      .within(0, 64)
      .only_with("zero", {"3"});
  t.add(s, "reshard_after_forward", gathers.reshard_after_forward,
        "zero = 3 drops gathered weights after forward and gathers them again for backward")
      .only_with("zero", {"3"});
  t.add_mib(s, "zero_keep_mb", keep_bytes,
            "zero = 3 keeps the weights of pieces below this size whole: they are gathered once, "
            "after their update")
      .within(0, 1 << 20)
      .only_with("zero", {"3"});
  t.add(s, "zero_reduce", reduce_each, {{"each", true}, {"last", false}},
        "zero = 2 and 3 sum gradients over the ranks after each micro-batch, or keep whole ones "
        "until the last")
      .only_with("zero", {"2", "3"});
  t.add(s, "shard_ranks", mesh.shard,
        "ranks that keep one state replica together: all, host, or a number; between the "
        "replicas gradients are summed")
      .only_with("zero", {"1", "2", "3"});
  t.add(
      s, "row_tables", row_tables,
      "tables of which a step reads some rows (items, with sampled_softmax) are kept by rows, row "
      "r by rank r mod N: only what is read is gathered, reduced and updated; what the others "
      "miss is made up for when they are read");
  t.add(s, "offload_optimizer", offload.optimizer, offload_places(),
        "where the optimizer's states and the masters of 16-bit weights lie: with the rest, in a "
        "GPU's host memory, or on the disk; a bucket of them is in memory at a time");
  t.add(s, "offload_gradients", offload.gradients, offload_places(),
        "the same for the shards of gradients; needs zero = 2 or 3");
  t.add(s, "offload_parameters", offload.parameters, offload_places(),
        "the same for the shards of weights; needs zero = 3");
  t.add(s, "offload_dir",
        {[this] { return offload.folder.string(); },
         [this](const std::string& text) { offload.folder = text; }},
        "folder on a disk of each host for what is offloaded to the disk; nothing stays there")
      .differs();
  t.add(s, "device_memory", memory_size("device_memory", device_memory),
        "what the tensors of a rank may take of its device, such as 6GB, where that is less than "
        "there is: plans and estimates keep within it, and on processors a training that would "
        "take more ends; default: what there is");
  t.add(s, "timeout", timeout,
        "seconds after which ranks that do not meet, or a collective, give up")
      .at_least(1)
      .alias("ddp_timeout")
      .differs();
  t.add(s, "device", device, "where to compute").choice({"auto", "cpu", "cuda"}).differs();
}

}  // namespace convoy::train
