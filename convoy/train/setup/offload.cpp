#include "convoy/train/setup/offload.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/launch/error_file.h"

namespace convoy::train {

namespace {

using parallel::Place;

struct Choice {
  const char* option;
  Place place;
  int64_t least_stage;
  const char* why;
};

std::vector<Choice> choices(const schedule::OffloadOptions& offload) {
  return {{"offload_optimizer", offload.optimizer, 0, ""},
          {"offload_gradients", offload.gradients, 2, "backward needs whole gradients"},
          {"offload_parameters", offload.parameters, 3, "every step needs whole weights"}};
}

}  // namespace

void check_offloaded_shards(const ParallelArguments& a, bool is_pipeline) {
  for (const auto& [option, place, least_stage, why] : choices(a.offload)) {
    if (place == Place::Device) continue;
    if (a.zero < least_stage) {
      fail<UsageError>("parallel", "{} = {} with zero = {}: {} there; try --zero {}", option,
                       name_of(place), a.zero, why, least_stage);
    }
    if (is_pipeline && least_stage > 0) {
      fail<UsageError>("parallel",
                       "{} = {} with a pipeline: each micro-batch would bring it back from there; "
                       "try offload_optimizer, or more stages",
                       option, name_of(place));
    }
  }
}

void check_offload_places(const ParallelArguments& a, at::Device device, const std::string& where) {
  for (const auto& [option, place, least_stage, why] : choices(a.offload)) {
    if (place == Place::Cpu && device.is_cpu()) {
      fail<UsageError>("parallel",
                       "{} = cpu moves what a GPU holds to its host's memory, but the device is "
                       "the CPU, whose memory that is; try {} = disk",
                       option, option);
    }
    if (place == Place::Disk && a.offload.folder.empty()) {
      fail<UsageError>("parallel",
                       "{} = disk needs a folder on a disk with room; got none; try --offload_dir "
                       "/path/to/scratch",
                       option);
    }
    std::error_code error;
    if (place == Place::Disk && !where.empty() &&
        !std::filesystem::is_directory(a.offload.folder, error)) {
      fail<UsageError>("parallel",
                       "{} = disk: offload_dir = {} is no folder on {}; try to "
                       "make it, or another one",
                       option, a.offload.folder.string(), where);
    }
  }
}

parallel::OffloadOptions offload_options(const ParallelArguments& arguments, const Job& job,
                                         bool trains) {
  const auto& a = arguments;
  auto offload = a.offload;
  offload.rank = job.environment.rank;
  if (!trains) offload.optimizer = offload.gradients = Place::Device;
  auto checked = a;
  checked.offload = offload;
  check_offloaded_shards(checked, job.strategy == "pipeline");
  for (const auto& [option, place, least_stage, why] : choices(offload)) {
    if (place == Place::Device) continue;
    const auto value = name_of(place);
    if (job.strategy == "dp" && a.zero == 0) {
      fail<UsageError>("parallel",
                       "{} = {} with DataParallel: its replicas share one optimizer; try --zero 1, "
                       "or a process per device: convoy launch -n 2 train ...",
                       option, value);
    }
    if (least_stage == 3 && a.keep_bytes > 0) {
      fail<UsageError>("parallel",
                       "{} = {} with zero_keep_mb = {}: what is kept whole is in memory; try one "
                       "of the two",
                       option, value, a.keep_bytes >> 20);
    }
  }
  check_offload_places(
      checked, job.devices.at(0),
      fmt::format("{}, seen from rank {}", launch::host_name(), job.environment.rank));
  return offload;
}

std::vector<std::string> offload_warnings(const ParallelArguments& a) {
  const auto all = choices(a.offload);
  const auto any = [&](Place place) {
    return std::any_of(all.begin(), all.end(), [&](const Choice& c) { return c.place == place; });
  };
  std::vector<std::string> out;
  if (any(Place::Cpu)) {
    out.emplace_back(
        "offload to cpu: the copies to a GPU's pinned host memory have never run on a GPU so far");
  }
  if (!any(Place::Disk) && !a.offload.folder.empty()) {
    out.push_back(
        fmt::format("offload_dir = {} has no effect: nothing is offloaded to the disk; try "
                    "--offload_optimizer disk",
                    a.offload.folder.string()));
  }
  return out;
}

}  // namespace convoy::train
