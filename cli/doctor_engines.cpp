#include "cli/doctor.h"
#include "convoy/base/error.h"
#include "convoy/comm/cuda.h"
#include "convoy/comm/nccl/nccl_engine.h"

namespace convoy::cli {
namespace {

using machine::Engine;

Engine nccl(int num_gpus) {
  if (num_gpus == 0) return {"nccl", false, "no GPU is visible"};
  if (const auto& cuda = comm::open_cuda(); cuda.num_devices == 0) {
    return {"nccl", false, cuda.why_none};
  }
  std::string why;
  if (!comm::has_nccl(&why)) return {"nccl", false, why};
  return {"nccl", true, "processes with a GPU each"};
}

}  // namespace

std::vector<Engine> find_engines(int num_gpus) {
  auto engines = machine::host_engines();
  engines.push_back(nccl(num_gpus));
  return engines;
}

int usable_gpus(int num_gpus) {
  return num_gpus > 0 ? comm::open_cuda().num_devices : 0;
}

}  // namespace convoy::cli
