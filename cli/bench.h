#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace convoy::cli {

struct StrategyBench {
  std::string config;
  std::vector<std::string> strategies{"single", "dp", "ddp"};
  std::vector<int> ranks{2};
  std::string output;
  bool per_device = false;
};

/// `convoy bench strategies`.
int bench_strategies(const StrategyBench& options);

struct StepBench {
  std::string config;
  int64_t steps = 30;
  int64_t warmup = 5;
  std::optional<int64_t> nproc;
  bool json = false;
};

/// `convoy bench step`.
int bench_step(const StepBench& options);

struct SaveBench {
  std::string config;
  std::string folder = ".";
  int64_t rounds = 3;
  int64_t saves = 2;
  int64_t save_steps = 12;
  std::optional<int64_t> nproc;
  bool json = false;
};

/// `convoy bench save`.
int bench_save(const SaveBench& options);

struct LoaderBench {
  std::string config;
  int64_t epochs = 3;
  bool json = false;
};

/// `convoy bench loader`.
int bench_loader(const LoaderBench& options);

struct CollectivesBench {
  std::vector<std::string> engines{"shm", "gloo", "threads"};
  std::vector<std::string> collectives;  ///< all by default
  std::vector<std::string> dtypes{"fp32"};
  std::vector<std::string> sizes{"1K", "16K", "256K", "1M", "4M", "16M", "64M"};
  std::vector<int> ranks{2};
  std::string device = "cpu";
  double seconds_per_cell = 0.3;
  bool json = false;
  std::string output;
  std::string results;  ///< where a rank leaves its times for the process that started it
};

/// `convoy bench collectives`.
int bench_collectives(const CollectivesBench& options);

}  // namespace convoy::cli
