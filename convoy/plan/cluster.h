#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "convoy/schedule/run/mesh.h"
#include "convoy/schedule/run/simulate.h"

namespace convoy::plan {

using schedule::Link;

/// A kind of device.
struct Device {
  std::string name;
  int64_t memory_bytes = 0;
  double fp32_flops = 0, bf16_flops = 0;  ///< of dense products a second, as its data sheet says
  double bytes_per_second = 0;            ///< of its memory
  double tf32_flops = 0;                  ///< of fp32 products with --tf32; 0: as without
  bool has_bf16 = true;                   ///< else bf16_flops is of fp16 alone
};

/// Throws UsageError where the device that is known by this name has no products in bf16.
void check_bf16(const std::string& device);

/// Devices whose data sheets are known, such as h100-80.
const std::vector<Device>& known_devices();

/// Hosts of as many devices; rank r is on host r / devices_per_host.
struct Cluster {
  int num_hosts = 1;
  int devices_per_host = 1;
  Device device;                    ///< each; where they differ, what numbers are known of
  std::vector<Device> each = {};    ///< by rank, where they differ; empty: all are `device`
  std::vector<double> speeds = {};  ///< by rank, of a model, where `device` has 1; empty: unknown
  Link inside;                      ///< between two devices of a host
  Link between;                     ///< of one host to all others
  double host_bytes_per_second = 25e9;  ///< between a device and its host's memory
  double disk_bytes_per_second = 1e9;   ///< of a host, in both directions together
  /// What a host has room for of offloaded state, in its memory and on its disk; 0: all of it.
  int64_t host_memory_bytes = 0, disk_bytes = 0;
  /// The part of a collective that a device computes beside; none of a processor's core that has
  /// the engine's thread on it.
  double beside = 1;
  /// A rank whose part of a sum over hosts has come goes on while others wait for theirs.
  bool phases_overlap = true;
  /// What trainings reach of what data sheets promise: of products and of the memory. These and the
  /// two below are what an H200 showed (docs/planning.md).
  double efficiency = 0.7, memory_efficiency = 0.85;
  double kernel_seconds = 3e-6;   ///< that pass on a device from an operation to the next
  double launch_seconds = 20e-6;  ///< that a host needs for an operation of a device
  int64_t reserved_bytes = 0;     ///< of a device's memory: what a process takes beside tensors

  int num_devices() const { return num_hosts * devices_per_host; }
  int host_of(int rank) const { return rank / devices_per_host; }
  const Device& device_of(int rank) const {
    return each.empty() ? device : each[static_cast<size_t>(rank)];
  }
  /// Products of fp32 run in TF32 from now on, on devices that have it.
  void use_tf32();
  /// How fast a rank computes where `device` has 1: the model that is planned, or else products.
  double speed_of(int rank, bool low_precision) const;
  /// What the tensors of a rank may take, of `device` or of each.
  int64_t room() const { return device.memory_bytes - reserved_bytes; }
  int64_t room_of(int rank) const { return device_of(rank).memory_bytes - reserved_bytes; }
};

/// Reads a TOML file with [cluster], [device], [inside] and [between]. Throws UsageError for a
/// device that is not known and has no numbers, and for a link without a bandwidth.
Cluster read_cluster(const std::filesystem::path& file);

/// As many devices of a kind, eight a host, with the links that such hosts have as a rule. Throws
/// UsageError for a device that is not known.
Cluster usual_cluster(const std::string& device, int num_devices);

enum class Collective { AllReduce, ReduceScatter, AllGather };

/// What a collective takes in seconds: one alone, and each of many that follow each other, where
/// the next begins on some ranks before it has ended on others.
struct CollectiveTime {
  double alone = 0, in_row = 0;
};

/// A collective that a rank begins.
struct Begun {
  double bytes, at;
};

class HostSums;
class KnownSums;

/// What the collectives of a mesh's groups along some axes take, in seconds: inside a host each
/// rank sends what is not its own, then each host one copy to the others, as convoy's engines do
/// (comm/hierarchy) and NCCL's rings. Groups whose ranks share a host share its link to the others.
/// Where phases overlap and ranks are few they are played message by message, else they come one
/// after the other.
class GroupTimes {
 public:
  /// `known`: what was played before; null: nothing was.
  GroupTimes(const Cluster& cluster, const schedule::Mesh& mesh, schedule::AxisSet axes,
             KnownSums* known = nullptr);

  int size() const { return size_; }
  bool crosses_hosts() const { return num_hosts_ > 1; }
  double all_reduce(double bytes) const { return time(Collective::AllReduce, bytes).alone; }
  /// `bytes` of the whole, as of what is scattered.
  CollectiveTime time(Collective of, double bytes) const;
  /// What a sum takes of ranks that compute so long before each, all in a row, beyond that of the
  /// slowest; `speeds`: by rank.
  double waits(double bytes, double computing, const std::vector<double>& speeds) const;
  /// Whether `ended` knows.
  bool plays_hosts() const { return played_ && num_hosts_ > 1; }
  /// When the last has ended of those that ranks begin at different times, by rank.
  double ended(Collective of, const std::vector<std::vector<Begun>>& by_rank) const;
  /// What the links carry of many in a row: they take no less.
  double least(Collective of, double bytes) const;
  /// Of a message to the next rank of the group while all send theirs.
  double message(double bytes) const {
    return size_ == 1 ? 0 : (num_hosts_ > 1 ? between_ : inside_).time_of(bytes);
  }

 private:
  Link inside_, between_;
  int size_ = 1, per_host_ = 1, num_hosts_ = 1;  // of the group that spans most hosts
  double leaves_host_ = 0;  // of a group's bytes, for all groups of the host that sends most
  std::shared_ptr<const HostSums> played_;
};

/// What a message from one stage of a pipeline to another takes, where it takes longest.
Link link_of_stages(const Cluster& cluster, const schedule::Mesh& mesh, int from, int to);

/// The fastest link between neighbouring stages.
Link fastest_link_of_stages(const Cluster& cluster, const schedule::Mesh& mesh);

}  // namespace convoy::plan
