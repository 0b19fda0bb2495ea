#include "convoy/planner/devices/these_gpus.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "convoy/base/host_name.h"
#include "convoy/base/timing.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/job/numerics.h"
#include "convoy/job/run_options.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/planner/devices/this_host.h"

namespace convoy::planner {

namespace {

/// Bytes of NCCL, cuBLAS and fragmentation beside tensors in a training: this many, but at most a
/// tenth of the memory.
constexpr int64_t kReservedBytes = 500'000'000, kReservedShare = 10;
/// Share of the rate of the largest products that trainings reach (see docs/planning.md).
constexpr double kEfficiency = 0.9;

double seconds_on(at::Device gpu, const std::function<void()>& work) {
  comm::synchronize(gpu);
  const auto began = std::chrono::steady_clock::now();
  work();
  comm::synchronize(gpu);
  return seconds_since(began);
}

/// Shortest time of some runs, the first of which are slow.
double best_seconds(at::Device gpu, const std::function<void()>& work) {
  constexpr int kRuns = 5;
  double best = seconds_on(gpu, work);
  for (int run = 1; run < kRuns; ++run) best = std::min(best, seconds_on(gpu, work));
  return best;
}

/// Rate of products of square matrices as large as fit into memory and take a moment.
double product_flops(at::Device gpu, at::ScalarType dtype, int64_t most_bytes) {
  constexpr int64_t kSmallest = 512, kLargest = 8192;
  constexpr double kMoment = 0.01;
  double flops = 0;
  for (int64_t n = kSmallest; n <= kLargest; n *= 2) {
    const auto a = at::ones({n, n}, at::TensorOptions().dtype(dtype).device(gpu));
    auto out = at::empty_like(a);
    const double seconds = best_seconds(gpu, [&] { at::mm_out(out, a, a); });
    const double size = static_cast<double>(n);
    flops = std::max(flops, 2 * size * size * size / seconds);
    const auto bytes_of_both = static_cast<int64_t>(a.nbytes() + out.nbytes());
    if (seconds > kMoment || 4 * bytes_of_both > most_bytes) break;
  }
  return flops;
}

/// Bytes read and written in a second.
double memory_rate(at::Device gpu, int64_t most_bytes) {
  constexpr int64_t kEnough = 512 << 20;
  const int64_t bytes = std::min(kEnough, most_bytes) / 2;
  const auto from = at::ones({bytes}, at::TensorOptions(at::kByte).device(gpu));
  auto to = at::empty_like(from);
  return 2.0 * static_cast<double>(bytes) / best_seconds(gpu, [&] { to.copy_(from); });
}

/// Number of a group's ranks that compute on this one's GPU.
int64_t ranks_sharing(const comm::Group& group, at::Device gpu) {
  if (group.size() == 1) return 1;
  const auto who = host_name() + comm::identity(gpu) + std::to_string(gpu.index());
  const auto own = static_cast<int64_t>(std::hash<std::string>()(who));
  const auto all = group.all_gather(at::full({1}, own, at::kLong), "compare GPUs");
  return comm::item<int64_t>(all.eq(own).sum());
}

/// Takes the least memory and rate of any rank, as a plan must hold for all.
void take_least(const comm::Group& all, Device& device) {
  if (all.size() == 1) return;
  // Exact: bytes are fewer than 2^53.
  auto least = at::tensor({static_cast<double>(device.memory_bytes), device.fp32_flops,
                           device.bytes_per_second},
                          at::kDouble)
                   .neg();
  all.all_reduce(least, comm::ReduceOp::Max, "compare GPUs");
  device.memory_bytes = static_cast<int64_t>(-comm::item<double>(least[0]));
  device.fp32_flops = device.bf16_flops = -comm::item<double>(least[1]);
  device.bytes_per_second = -comm::item<double>(least[2]);
}

}  // namespace

int64_t free_for_tensors(at::Device gpu, const comm::Group& group) {
  const int64_t ranks = ranks_sharing(group, gpu);
  if (ranks > 1) group.barrier("look for free memory");  // before one of them takes some
  const int64_t bytes = comm::device_memory(gpu).free;
  return (bytes - std::min(kReservedBytes, bytes / kReservedShare)) / ranks;
}

Cluster these_gpus(const options::TrainingArguments& arguments, const job::Job& met,
                   const job::MetRanks& ranks) {
  const auto gpu = met.devices.at(0);
  const auto dtype = job::any_split_options(arguments).compute_dtype;
  Cluster out;
  out.num_hosts = met.environment.num_nodes;
  out.devices_per_host = met.environment.local_world_size;
  out.device.name = "this kind of GPU";
  out.device.memory_bytes = free_for_tensors(gpu, ranks.host);
  const int64_t to_measure = out.device.memory_bytes / 4;
  out.host_memory_bytes = machine::memory_limit().bytes;
  {
    const job::Tf32 tf32(arguments.tf32);
    out.device.bf16_flops = out.device.fp32_flops = product_flops(gpu, dtype, to_measure);
  }
  out.device.bytes_per_second = memory_rate(gpu, to_measure);
  take_least(ranks.all, out.device);
  out.efficiency = kEfficiency;
  out.memory_efficiency = 1;
  set_links(out, time_sums(met, ranks));
  comm::free_unused_memory(gpu);
  return out;
}

}  // namespace convoy::planner
