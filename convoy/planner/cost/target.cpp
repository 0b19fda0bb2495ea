#include "convoy/planner/cost/target.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/machine/cores.h"

namespace convoy::planner {

namespace {

Cluster measured_cluster(const ThisHost& where, const std::optional<Profile>& profile,
                         int num_ranks) {
  const auto sums = profile      ? profile->sums
                    : where.sums ? *where.sums
                                 : time_sums_of_threads(num_ranks);
  return hosts_like_this(num_ranks / sums.num_hosts, sums);
}

/// Limits the memory of each device to `bytes`.
void limit_memory(Cluster& cluster, int64_t bytes) {
  const auto limit = bytes + cluster.reserved_bytes;
  cluster.device.memory_bytes = std::min(cluster.device.memory_bytes, limit);
  for (auto& device : cluster.each) device.memory_bytes = std::min(device.memory_bytes, limit);
}

void check_cluster(const Cluster& cluster, int num_ranks, bool bf16) {
  if (num_ranks > cluster.num_devices()) {
    fail<UsageError>("train", "--ranks {} on a cluster of {}; try --ranks {}", num_ranks,
                     plural(cluster.num_devices(), "device"), cluster.num_devices());
  }
  if (cluster.device.memory_bytes <= cluster.reserved_bytes) {
    fail<UsageError>("train",
                     "a device's memory of {} is no more than what a process takes beside "
                     "tensors ({}); try more",
                     human_bytes(cluster.device.memory_bytes), human_bytes(cluster.reserved_bytes));
  }
  if (!bf16) return;
  check_bf16(cluster.device.name);
  for (const auto& device : cluster.each) check_bf16(device.name);
}

void set_disk(Cluster& cluster, const std::filesystem::path& folder,
              const std::optional<Profile>& profile, const std::string& file) {
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

}  // namespace

int usual_ranks(const Target& where) {
  const auto* devices = std::get_if<Devices>(&where);
  return devices != nullptr ? devices->cluster.num_devices() : machine::usable_cores();
}

Cluster cluster_of(const Target& where, const std::optional<Profile>& profile, int num_ranks,
                   const options::TrainingArguments& arguments) {
  const auto* devices = std::get_if<Devices>(&where);
  const auto* here = std::get_if<ThisHost>(&where);
  auto out = devices != nullptr ? devices->cluster : measured_cluster(*here, profile, num_ranks);
  if (const auto bytes = arguments.parallel.device_memory; bytes > 0) limit_memory(out, bytes);
  check_cluster(out, num_ranks, arguments.bf16);
  if (arguments.tf32) out.use_tf32();  // of measured GPUs its rate is fp32's
  const auto& offload_dir = arguments.parallel.parallelism.offload.folder;
  if (!offload_dir.empty() && (here != nullptr || devices->reach_this_disk)) {
    set_disk(out, offload_dir, profile, here != nullptr ? here->profile : "");
  }
  return out;
}

}  // namespace convoy::planner
