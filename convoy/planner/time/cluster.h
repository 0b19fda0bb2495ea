#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "convoy/parallel/mesh.h"
#include "convoy/parallel/program/simulate.h"

namespace convoy::planner {

using parallel::Link;

/// A kind of device.
struct Device {
  std::string name;
  int64_t memory_bytes = 0;
  double fp32_flops = 0, bf16_flops = 0;  ///< of dense products a second, as its data sheet says
  double bytes_per_second = 0;            ///< of its memory
  double tf32_flops = 0;                  ///< of fp32 products with --tf32; 0: as without
  bool has_bf16 = true;                   ///< else bf16_flops is of fp16 alone
};

/// Throws UsageError where the device of this name has no products in bf16.
void check_bf16(const std::string& device);

/// Devices whose data sheets are known, such as h100-80.
const std::vector<Device>& known_devices();

/// Hosts of as many devices; rank r is on host r / devices_per_host.
struct Cluster {
  int num_hosts = 1;
  int devices_per_host = 1;
  Device device;                    ///< each; where they differ, the one that numbers are known of
  std::vector<Device> each = {};    ///< by rank, where they differ; empty: all are `device`
  std::vector<double> speeds = {};  ///< by rank, of a model, where `device` has 1; empty: unknown
  Link inside;                      ///< between two devices of a host
  Link between;                     ///< of one host to all others
  double host_bytes_per_second = 25e9;  ///< between a device and its host's memory
  double disk_bytes_per_second = 1e9;   ///< of a host, in both directions together
  /// Capacity of a host for offloaded state, in its memory and on its disk; 0: no limit.
  int64_t host_memory_bytes = 0, disk_bytes = 0;
  /// Part of a collective during which a device computes on; 0 for a processor's core that has the
  /// engine's thread on it.
  double beside = 1;
  /// Whether a rank whose part of a sum over hosts has come goes on while others wait for theirs.
  bool phases_overlap = true;
  /// Parts of the data sheets' rates that trainings reach: of products and of the memory. These and
  /// the two below are what an H200 showed (docs/planning.md).
  double efficiency = 0.7, memory_efficiency = 0.85;
  double kernel_seconds = 3e-6;   ///< that pass on a device from an operation to the next
  double launch_seconds = 20e-6;  ///< that a host needs for an operation of a device
  int64_t reserved_bytes = 0;     ///< of a device's memory: what a process takes beside tensors

  int num_devices() const { return num_hosts * devices_per_host; }
  int host_of(int rank) const { return rank / devices_per_host; }
  const Device& device_of(int rank) const {
    return each.empty() ? device : each[static_cast<size_t>(rank)];
  }
  /// Makes products of fp32 run in TF32 from now on, on devices that have it.
  void use_tf32();
  /// Speed of a rank where `device` has 1: of the model that is planned, or else of products.
  double speed_of(int rank, bool low_precision) const;
  /// Bytes for the tensors of a rank, of `device` or of each.
  int64_t room() const { return device.memory_bytes - reserved_bytes; }
  int64_t room_of(int rank) const { return device_of(rank).memory_bytes - reserved_bytes; }
};

/// Reads a TOML file with [cluster], [device], [inside] and [between]. Throws UsageError for a
/// device that is not known and has no numbers, and for a link without a bandwidth.
Cluster read_cluster(const std::filesystem::path& file);

/// A cluster of `num_devices` of a kind, eight a host, with the links that such hosts have as a
/// rule. Throws UsageError for a device that is not known.
Cluster usual_cluster(const std::string& device, int num_devices);

}  // namespace convoy::planner
