#include "convoy/job/offload.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/launch/error_file.h"
#include "convoy/parallel/refuse.h"

namespace convoy::job {

using parallel::Place;
using parallel::placed_parts;

void check_offload_places(const parallel::OffloadOptions& offload, at::Device device,
                          const std::string& where) {
  for (const auto& [option, place, least, why] : placed_parts(offload)) {
    if (place == Place::Cpu && device.is_cpu()) {
      fail<UsageError>("parallel",
                       "{} = cpu moves what a GPU holds to its host's memory, but the device is "
                       "the CPU, whose memory that is; try {} = disk",
                       option, option);
    }
    std::error_code error;
    if (place == Place::Disk && !where.empty() &&
        !std::filesystem::is_directory(offload.folder, error)) {
      fail<UsageError>("parallel",
                       "{} = disk: offload_dir = {} is no folder on {}; try to "
                       "make it, or another one",
                       option, offload.folder.string(), where);
    }
  }
}

parallel::OffloadOptions offload_options(const options::ParallelArguments& arguments,
                                         const Job& job, bool trains) {
  parallel::require(refuse_offload(arguments.parallelism,
                                   {.trains = trains, .shares_weights = job.strategy == "dp"}));
  auto offload = arguments.parallelism.offload;
  offload.rank = job.environment.rank;
  if (!trains) offload.optimizer = offload.gradients = Place::Device;
  check_offload_places(
      offload, job.devices.at(0),
      fmt::format("{}, seen from rank {}", launch::host_name(), job.environment.rank));
  return offload;
}

std::vector<std::string> offload_warnings(const options::ParallelArguments& a) {
  const auto all = placed_parts(a.parallelism.offload);
  const auto any = [&](Place place) {
    return std::any_of(all.begin(), all.end(), [&](const auto& c) { return c.place == place; });
  };
  std::vector<std::string> out;
  if (any(Place::Cpu)) {
    out.emplace_back(
        "offload to cpu: the copies to a GPU's pinned host memory have never run on a GPU so far");
  }
  if (!any(Place::Disk) && !a.parallelism.offload.folder.empty()) {
    out.push_back(
        fmt::format("offload_dir = {} has no effect: nothing is offloaded to the disk; try "
                    "--offload_optimizer disk",
                    a.parallelism.offload.folder.string()));
  }
  return out;
}

}  // namespace convoy::job
