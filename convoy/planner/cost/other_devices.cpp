#include "convoy/planner/cost/other_devices.h"

#include <algorithm>
#include <map>
#include <string>

namespace convoy::planner {

std::vector<BlockCost> on_device(std::vector<BlockCost> blocks,
                                 const std::vector<parallel::BlockCounts>& counts_of_row,
                                 const BlockShare& share, const Cluster& cluster,
                                 bool low_precision) {
  const auto& device = cluster.device;
  const double flops = cluster.efficiency * (low_precision ? device.bf16_flops : device.fp32_flops);
  const double rate = cluster.memory_efficiency * device.bytes_per_second;
  for (size_t b = 0; b < blocks.size(); ++b) {
    auto& block = blocks[b];
    const double rows = static_cast<double>(share.rows) / share.tensor / share.context;
    const auto& counts = counts_of_row.at(b);
    constexpr double kPasses = 2;  // written once and read once
    const auto seconds = [&](double operations, double bytes, double kernels) {
      const double computing =
          operations * rows / flops + bytes * rows / rate + kernels * cluster.kernel_seconds;
      return std::max(computing, kernels * cluster.launch_seconds);
    };
    block.forward_seconds =
        seconds(counts.forward, kPasses * counts.forward_made, counts.forward_kernels);
    block.backward_seconds = seconds(counts.backward, counts.kept + kPasses * counts.backward_made,
                                     counts.backward_kernels);
    block.weight_seconds = counts.weight * rows / flops;
  }
  return blocks;
}

std::vector<double> speeds_of_devices(const std::vector<BlockCost>& blocks,
                                      const std::vector<parallel::BlockCounts>& counts_of_row,
                                      const BlockShare& share, Cluster cluster,
                                      bool low_precision) {
  const auto seconds_on = [&](const Device& device) {
    cluster.device = device;
    double out = 0;
    for (const auto& block : on_device(blocks, counts_of_row, share, cluster, low_precision)) {
      out += block.forward_seconds + block.backward_seconds;
    }
    return out;
  };
  const double of_first = seconds_on(cluster.device);
  std::map<std::string, double> known;
  std::vector<double> out;
  for (const auto& device : cluster.each) {
    const auto [found, fresh] = known.try_emplace(device.name);
    if (fresh) found->second = of_first / seconds_on(device);
    out.push_back(found->second);
  }
  return out;
}

}  // namespace convoy::planner
