#include "convoy/planner/time/cluster.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/options.h"
#include "convoy/base/text.h"

namespace convoy::planner {

namespace {

constexpr int64_t kGigabyte = 1'000'000'000;
constexpr double kMostMicroseconds = 1e7;
constexpr double kTera = 1e12, kGiga = 1e9, kMicro = 1e-6;
/// Ratio of a host's memory to that of its devices: about two (a DGX A100 1 and 2 TB to 320 and 640
/// GB).
constexpr int64_t kHostOverDevices = 2;

/// Reads numbers as people write them.
struct Written {
  std::string device;
  std::vector<std::string> kinds;
  double memory_gb = 0, fp32_tflops = 0, tf32_tflops = 0, bf16_tflops = 0, memory_gb_per_second = 0;
  double reserved_gb = 1;  // of CUDA's context and NCCL's buffers
  double inside_gb = 0, inside_us = 5, between_gb = 0, between_us = 20;
  double host_gb = 25, disk_gb = 1, beside = 1, launch_us = 20;
  double efficiency = 0.7, memory_efficiency = 0.85;
  double host_memory_gb = 0, disk_room_gb = 0;
  int64_t hosts = 1, devices = 1;
};

const Device* find_device(const std::string& name) {
  const auto& all = known_devices();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> device_names() {
  std::vector<std::string> out;
  for (const auto& device : known_devices()) out.push_back(device.name);
  return out;
}

/// Throws UsageError for an unknown device. `file`: the cluster's; "" where the device was typed.
[[noreturn]] void fail_for_device(const std::string& name, const std::filesystem::path& file = {}) {
  fail<UsageError>("cluster",
                   "{}device '{}' is not known{}; expected one of {}, or a [device] with "
                   "memory_gb, bf16_tflops, fp32_tflops and memory_gb_per_second",
                   file.empty() ? "" : file.string() + ": ", name,
                   did_you_mean(name, device_names()), join(device_names()));
}

void add_options(OptionTable& table, Written& to) {
  table.add("cluster", "hosts", to.hosts, "number of hosts, all alike").at_least(1);
  table.add("cluster", "devices", to.devices, "devices per host, all alike").at_least(1);
  table.add("cluster", "kinds", to.kinds,
            "kinds of known devices, if hosts differ: one per host, or one per device");
  table
      .add("cluster", "host_gb_per_second", to.host_gb,
           "bandwidth between a device and its host's memory")
      .at_least(0.001);
  table.add("cluster", "disk_gb_per_second", to.disk_gb, "bandwidth of a host's disk")
      .at_least(0.001);
  table
      .add("cluster", "host_memory_gb", to.host_memory_gb,
           "memory of a host for offload; 0: twice that of its devices")
      .at_least(0);
  table
      .add("cluster", "disk_gb", to.disk_room_gb,
           "free space on a host's disk for offload; 0: enough")
      .at_least(0);
  table
      .add("cluster", "beside", to.beside,
           "fraction of a collective that overlaps with computation; 0: both use the same core")
      .within(0, 1);
  table
      .add("cluster", "efficiency", to.efficiency,
           "fraction of the data sheets' FLOPs a second that matrix products reach")
      .within(0.01, 1);
  table
      .add("cluster", "memory_efficiency", to.memory_efficiency,
           "fraction of the data sheets' memory bandwidth that blocks reach")
      .within(0.01, 1);
  table
      .add("cluster", "launch_microseconds", to.launch_us,
           "what a host needs to launch an operation on a device")
      .within(0, kMostMicroseconds);
  table.add("device", "name", to.device, "a known device, or a name of your own");
  table.add("device", "memory_gb", to.memory_gb, "memory of a device").at_least(0);
  table.add("device", "reserved_gb", to.reserved_gb, "memory of it that is taken by other things")
      .at_least(0);
  table.add("device", "fp32_tflops", to.fp32_tflops, "peak of dense fp32 matrix products")
      .at_least(0);
  table.add("device", "tf32_tflops", to.tf32_tflops, "the same with --tf32; 0: as without")
      .at_least(0);
  table.add("device", "bf16_tflops", to.bf16_tflops, "the same in bf16 and fp16").at_least(0);
  table.add("device", "memory_gb_per_second", to.memory_gb_per_second, "bandwidth of its memory")
      .at_least(0);
  table.add("inside", "gb_per_second", to.inside_gb, "bandwidth between two devices of a host")
      .at_least(0);
  table.add("inside", "microseconds", to.inside_us, "latency of an empty message")
      .within(0, kMostMicroseconds);
  table.add("between", "gb_per_second", to.between_gb, "bandwidth from one host to all others")
      .at_least(0);
  table.add("between", "microseconds", to.between_us, "latency of an empty message")
      .within(0, kMostMicroseconds);
}

/// Returns the devices by rank, where a kind is written for each host or device. Throws UsageError
/// else.
std::vector<Device> devices_of(const std::vector<std::string>& kinds, int64_t hosts,
                               int64_t devices) {
  std::vector<Device> out;
  const auto number = std::ssize(kinds);
  if (number != hosts && number != hosts * devices) {
    fail<UsageError>("cluster", "kinds names {}; expected one for each of {} or for each of {}",
                     plural(number, "device"), plural(hosts, "host"),
                     plural(hosts * devices, "device"));
  }
  for (const auto& name : kinds) {
    const auto* known = find_device(name);
    if (known == nullptr) fail_for_device(name);
    out.insert(out.end(), static_cast<size_t>(number == hosts ? devices : 1), *known);
  }
  return out;
}

Link link_of(double gb_per_second, double microseconds) {
  if (gb_per_second <= 0) return {};
  return {microseconds * kMicro, gb_per_second * kGiga};
}

}  // namespace

// Peaks and bandwidths: NVIDIA's data sheets of the SXM and PCIe boards (dense, without sparsity).
const std::vector<Device>& known_devices() {
  static const std::vector<Device> all{
      {"b200-180", 180 * kGigabyte, 75 * kTera, 2250 * kTera, 7700 * kGiga, 1100 * kTera},
      {"h200-141", 141 * kGigabyte, 67 * kTera, 989 * kTera, 4800 * kGiga, 495 * kTera},
      {"h100-80", 80 * kGigabyte, 67 * kTera, 989 * kTera, 3350 * kGiga, 495 * kTera},
      {"a100-80", 80 * kGigabyte, 19.5 * kTera, 312 * kTera, 2039 * kGiga, 156 * kTera},
      {"a100-40", 40 * kGigabyte, 19.5 * kTera, 312 * kTera, 1555 * kGiga, 156 * kTera},
      {"v100-32", 32 * kGigabyte, 15.7 * kTera, 125 * kTera, 900 * kGiga, 0, false},
      {"l40s-48", 48 * kGigabyte, 91.6 * kTera, 362 * kTera, 864 * kGiga, 183 * kTera},
      {"l4-24", 24 * kGigabyte, 30.3 * kTera, 121 * kTera, 300 * kGiga, 60 * kTera},
      {"rtx4090-24", 24 * kGigabyte, 82.6 * kTera, 165 * kTera, 1008 * kGiga, 82.6 * kTera},
      {"t4-16", 16 * kGigabyte, 8.1 * kTera, 65 * kTera, 320 * kGiga, 0, false}};
  return all;
}

void check_bf16(const std::string& device) {
  const auto* known = find_device(device);
  if (known == nullptr || known->has_bf16) return;
  fail<UsageError>("cluster", "a {} computes no products in bf16; try --fp16", device);
}

namespace {

/// Largest number of devices: for more no plan would ever be found.
constexpr int64_t kMostDevices = 1 << 20;

void check_number(int64_t num_devices, const std::string& where) {
  if (num_devices <= kMostDevices) return;
  fail<UsageError>("cluster", "{} {}; expected at most {}", human_count(num_devices), where,
                   human_count(kMostDevices));
}

}  // namespace

Cluster usual_cluster(const std::string& device, int num_devices) {
  check_number(num_devices, "ranks to plan for");
  constexpr int kMostOfAHost = 8;
  const auto* known = find_device(device);
  if (known == nullptr) fail_for_device(device);
  Cluster out;
  out.device = *known;
  out.devices_per_host = std::min(num_devices, kMostOfAHost);
  out.num_hosts = (num_devices + out.devices_per_host - 1) / out.devices_per_host;
  // NVLink 2, 3, 4 and 5 carry 150, 300, 450 and 900 GB/s each way, PCIe 4 with 16 lanes some 25;
  // hosts with NVLink have a network card of 400 Gbit/s for each device as a rule, others 100 in
  // all.
  const bool has_nvlink = device.starts_with('b') || device.starts_with('h') ||
                          device.starts_with('a') || device.starts_with('v');
  const double nvlink = device.starts_with('b')   ? 900
                        : device.starts_with('h') ? 450
                        : device.starts_with('a') ? 300
                                                  : 150;
  out.inside = link_of(has_nvlink ? nvlink : 25, 5);
  out.between = link_of(has_nvlink ? 50.0 * out.devices_per_host : 12.5, 20);
  out.reserved_bytes = kGigabyte;  // of CUDA's context and NCCL's buffers
  out.host_memory_bytes = kHostOverDevices * out.devices_per_host * out.device.memory_bytes;
  return out;
}

Cluster read_cluster(const std::filesystem::path& file) {
  Written written;
  OptionTable table;
  add_options(table, written);
  table.read_toml(file);
  table.check();
  const auto where = "devices in " + file.string();
  check_number(std::max(written.hosts, written.devices), where);
  check_number(written.hosts * written.devices, where);
  Cluster out;
  if (!written.kinds.empty()) {
    if (!written.device.empty()) {
      fail<UsageError>("cluster",
                       "{}: kinds and [device] name both say what the devices are; try one",
                       file.string());
    }
    if (written.memory_gb > 0 || written.memory_gb_per_second > 0 || written.fp32_tflops > 0 ||
        written.tf32_tflops > 0 || written.bf16_tflops > 0) {
      fail<UsageError>("cluster",
                       "{}: the numbers of [device] do not go with kinds, which are known devices; "
                       "try without them",
                       file.string());
    }
    out.each = devices_of(written.kinds, written.hosts, written.devices);
    written.device = written.kinds.front();
  }
  if (const auto* known = find_device(written.device)) {
    out.device = *known;
  } else if (written.memory_gb <= 0 || written.memory_gb_per_second <= 0 ||
             (written.fp32_tflops <= 0 && written.bf16_tflops <= 0)) {
    fail_for_device(written.device, file);
  }
  out.device.name = written.device.empty() ? file.filename().string() : written.device;
  const auto take = [](auto& to, double given, double unit) {
    if (given > 0) to = static_cast<std::decay_t<decltype(to)>>(given * unit);
  };
  take(out.device.memory_bytes, written.memory_gb, kGiga);
  take(out.device.fp32_flops, written.fp32_tflops, kTera);
  take(out.device.tf32_flops, written.tf32_tflops, kTera);
  take(out.device.bf16_flops, written.bf16_tflops, kTera);
  take(out.device.bytes_per_second, written.memory_gb_per_second, kGiga);
  out.reserved_bytes = static_cast<int64_t>(written.reserved_gb * kGiga);
  if (out.device.bf16_flops == 0) out.device.bf16_flops = out.device.fp32_flops;
  if (out.device.fp32_flops == 0) out.device.fp32_flops = out.device.bf16_flops;
  out.num_hosts = static_cast<int>(written.hosts);
  out.devices_per_host = static_cast<int>(written.devices);
  if (out.devices_per_host > 1 && written.inside_gb <= 0) {
    fail<UsageError>("cluster",
                     "{} has {} devices a host and no [inside] gb_per_second, what one of "
                     "them sends to another",
                     file.string(), out.devices_per_host);
  }
  if (out.num_hosts > 1 && written.between_gb <= 0) {
    fail<UsageError>("cluster",
                     "{} has {} hosts and no [between] gb_per_second, what one of them "
                     "sends to the others",
                     file.string(), out.num_hosts);
  }
  out.inside = link_of(written.inside_gb, written.inside_us);
  out.between = link_of(written.between_gb, written.between_us);
  out.host_bytes_per_second = written.host_gb * kGiga;
  out.disk_bytes_per_second = written.disk_gb * kGiga;
  out.host_memory_bytes = kHostOverDevices * out.devices_per_host * out.device.memory_bytes;
  for (const auto& device : out.each) {  // of the host with least
    out.host_memory_bytes = std::min(out.host_memory_bytes,
                                     kHostOverDevices * out.devices_per_host * device.memory_bytes);
  }
  take(out.host_memory_bytes, written.host_memory_gb, kGiga);
  take(out.disk_bytes, written.disk_room_gb, kGiga);
  out.beside = written.beside;
  out.efficiency = written.efficiency;
  out.memory_efficiency = written.memory_efficiency;
  out.launch_seconds = written.launch_us * kMicro;
  return out;
}

void Cluster::use_tf32() {
  // Operands of 32 bits: products reach 0.6 of what others do of their peak (H200, torch 2.11).
  constexpr double kReached = 0.6;
  const auto use = [](Device& kind) {
    if (kind.tf32_flops > 0) {
      kind.fp32_flops = std::max(kind.fp32_flops, kReached * kind.tf32_flops);
    }
  };
  use(device);
  for (auto& kind : each) use(kind);
}

double Cluster::speed_of(int rank, bool low_precision) const {
  if (!speeds.empty()) return speeds.at(static_cast<size_t>(rank));
  const auto flops = low_precision ? &Device::bf16_flops : &Device::fp32_flops;
  return device_of(rank).*flops / (device.*flops);
}

}  // namespace convoy::planner
