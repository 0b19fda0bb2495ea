#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convoy/report/findings.h"

namespace convoy::cli {

/// What carries collectives between ranks.
struct Engine {
  std::string name;
  bool usable = false;
  std::string text;  ///< what it serves, or why it cannot be used
};

/// All engines. Opens torch's CUDA library and the NCCL plugin only where there is a GPU.
std::vector<Engine> find_engines(int num_gpus);

/// What follows from the engines that cannot be used.
std::vector<report::Finding> check_engines(const std::vector<Engine>& engines, int num_gpus);

/// How many of these GPUs torch can compute on.
int usable_gpus(int num_gpus);

/// How fast a device computes and copies.
struct Rate {
  std::string device;  ///< "cpu" or "cuda:0"
  int threads = 0;     ///< of the CPU; 0 for a GPU
  double fp32_gflops = 0;
  double bf16_gflops = 0;
  double copy_gb_per_second = 0;  ///< bytes read and written
};

/// Times square matrix products and copies of large buffers on the CPU with one thread and with
/// `threads`, then on every GPU: about a second each. `say` hears what is being timed.
std::vector<Rate> measure_rates(int threads, int num_gpus, int64_t available_bytes,
                                const std::function<void(const std::string&)>& say);

/// What the rates tell about this machine.
std::vector<report::Finding> check_rates(const std::vector<Rate>& rates);

}  // namespace convoy::cli
