#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/doctor.h"

namespace convoy::cli {

/// Everything that `convoy doctor` found out.
struct Diagnosis {
  report::Host host;
  report::CgroupLimits cgroup;
  report::Limits limits;
  report::Gpus gpus;
  std::vector<std::pair<std::string, std::string>> versions;
  std::string matrix_kernels;  ///< of fp32 products on the CPU
  std::vector<Engine> engines;
  std::vector<Rate> rates;
  std::vector<report::Finding> findings;
};

std::string to_text(const Diagnosis& diagnosis);
Json to_json(const Diagnosis& diagnosis);

}  // namespace convoy::cli
