#include "convoy/train/offload.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/launch/error_file.h"

namespace convoy::train {

namespace {

using parallel::Place;

struct Choice {
  const char* option;
  const std::string& value;
  int64_t least_stage;
  const char* why;
};

std::vector<Choice> choices(const ParallelArguments& a) {
  return {{"offload_optimizer", a.offload_optimizer, 0, ""},
          {"offload_gradients", a.offload_gradients, 2, "backward needs whole gradients"},
          {"offload_parameters", a.offload_parameters, 3, "every step needs whole weights"}};
}

Place place_of(const std::string& value) {
  return value == "disk" ? Place::Disk : value == "cpu" ? Place::Cpu : Place::Device;
}

}  // namespace

parallel::OffloadOptions offload_options(const ParallelArguments& arguments, const Job& job,
                                         bool trains) {
  auto a = arguments;
  if (!trains) a.offload_optimizer = a.offload_gradients = "none";
  for (const auto& [option, value, least_stage, why] : choices(a)) {
    if (value == "none") continue;
    if (a.zero < least_stage) {
      fail<UsageError>("parallel", "{} = {} with zero = {}: {} there; try --zero {}", option, value,
                       a.zero, why, least_stage);
    }
    if (job.strategy == "pipeline" && least_stage > 0) {
      fail<UsageError>("parallel",
                       "{} = {} with a pipeline: each micro-batch would bring it back from there; "
                       "try offload_optimizer, or more stages",
                       option, value);
    }
    if (job.strategy == "dp" && a.zero == 0) {
      fail<UsageError>("parallel",
                       "{} = {} with DataParallel: its replicas share one optimizer; try --zero 1, "
                       "or a process per device: convoy launch -n 2 train ...",
                       option, value);
    }
    if (value == "cpu" && job.devices.at(0).is_cpu()) {
      fail<UsageError>("parallel",
                       "{} = cpu moves what a GPU holds to its host's memory, but the device is "
                       "the CPU, whose memory that is; try {} = disk",
                       option, option);
    }
    if (value == "disk" && a.offload_dir.empty()) {
      fail<UsageError>("parallel",
                       "{} = disk needs a folder on a disk with room; got none; try --offload_dir "
                       "/path/to/scratch",
                       option);
    }
    if (least_stage == 3 && a.zero_keep_mb > 0) {
      fail<UsageError>("parallel",
                       "{} = {} with zero_keep_mb = {}: what is kept whole is in memory; try one "
                       "of the two",
                       option, value, a.zero_keep_mb);
    }
    std::error_code error;
    if (value == "disk" && !std::filesystem::is_directory(a.offload_dir, error)) {
      fail<UsageError>("parallel",
                       "{} = disk: offload_dir = {} is no folder on {}, seen from rank {}; try to "
                       "make it, or another one",
                       option, a.offload_dir, launch::host_name(), job.environment.rank);
    }
  }
  return {place_of(a.offload_optimizer), place_of(a.offload_gradients),
          place_of(a.offload_parameters), a.offload_dir, job.environment.rank};
}

std::vector<std::string> offload_warnings(const ParallelArguments& a) {
  const auto all = choices(a);
  const auto any = [&](const char* place) {
    return std::any_of(all.begin(), all.end(), [&](const Choice& c) { return c.value == place; });
  };
  std::vector<std::string> out;
  if (any("cpu")) {
    out.emplace_back(
        "offload to cpu: the copies to a GPU's pinned host memory have never run on a GPU so far");
  }
  if (!any("disk") && !a.offload_dir.empty()) {
    out.push_back(
        fmt::format("offload_dir = {} has no effect: nothing is offloaded to the disk; try "
                    "--offload_optimizer disk",
                    a.offload_dir));
  }
  return out;
}

}  // namespace convoy::train
