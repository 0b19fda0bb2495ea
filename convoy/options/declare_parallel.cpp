#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/comm/engine_registry.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/knob_texts.h"
#include "convoy/parallel/knobs.h"

// The options of [parallel].
namespace convoy::options {

namespace {

std::vector<std::string> or_auto(std::vector<std::string> names) {
  names.insert(names.begin(), "auto");
  return names;
}

/// Declares shard_ranks, which is text until the job's hosts are known, and so no knob of
/// Parallelism.
void declare_shard_ranks(OptionTable& t, std::string& shard_ranks) {
  t.add("parallel", "shard_ranks", shard_ranks,
        "ranks over which ZeRO shards: all, host (hybrid sharding), or a number; gradients are "
        "all-reduced between such groups")
      .only_with("zero", {"1", "2", "3"});
}

}  // namespace

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
  for (const auto& knob : parallel::knobs()) {
    if (knob.declare != nullptr) parallel::declare(knob, t, parallelism);
    if (std::string_view(knob.name) == "shard_ranks") declare_shard_ranks(t, shard_ranks);
  }
  t.add(s, "threads", threads,
        "intra-op threads per rank; 0 = OMP_NUM_THREADS, or the cores divided by the ranks")
      .within(0, 1024)
      .differs();
  t.add(s, "device_memory", parallel::memory_size("device_memory", device_memory),
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

}  // namespace convoy::options
