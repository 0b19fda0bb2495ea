#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/doctor/findings.h"

namespace convoy::doctor {

/// Engine that carries collectives between ranks.
struct EngineCheck {
  std::string name;
  bool usable = false;
  std::string text;  ///< its use, or the reason why it cannot be used
};

/// Threads, shared memory and Gloo.
std::vector<EngineCheck> host_engines();

/// Findings about the engines that cannot be used.
std::vector<Finding> check_engines(const std::vector<EngineCheck>& engines, int num_gpus);

/// Rates at which a device computes and copies.
struct Rate {
  std::string device;  ///< "cpu" or "cuda:0"
  int threads = 0;     ///< of the CPU; 0 for a GPU
  double fp32_gflops = 0;
  double bf16_gflops = 0;
  double copy_gb_per_second = 0;  ///< bytes read and written
};

/// Findings about this machine from its rates.
std::vector<Finding> check_rates(const std::vector<Rate>& rates);

/// Everything that `convoy doctor` found out.
struct Diagnosis {
  machine::Host host;
  machine::CgroupLimits cgroup;
  machine::Limits limits;
  machine::Gpus gpus;
  std::vector<std::pair<std::string, std::string>> versions;
  std::string matrix_kernels;  ///< of fp32 products on the CPU
  std::vector<EngineCheck> engines;
  std::vector<Rate> rates;
  std::vector<Finding> findings;
};

std::string to_text(const Diagnosis& diagnosis);
Json to_json(const Diagnosis& diagnosis);

}  // namespace convoy::doctor
