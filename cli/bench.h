#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy::cli {

struct StrategyBench {
  std::string config;
  std::vector<std::string> strategies{"single", "dp", "ddp"};
  std::vector<int> ranks{2};
  std::string output;
};

/// `convoy bench strategies`.
int bench_strategies(const StrategyBench& options);

struct StepBench {
  std::string config;
  int64_t steps = 30;
  int64_t warmup = 5;
  int64_t nproc = 1;
  bool json = false;
};

/// `convoy bench step`.
int bench_step(const StepBench& options);

struct LoaderBench {
  std::string config;
  int64_t epochs = 3;
  bool json = false;
};

/// `convoy bench loader`.
int bench_loader(const LoaderBench& options);

}  // namespace convoy::cli
