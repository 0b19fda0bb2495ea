#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "convoy/comm/nccl/plugin.h"

extern "C" __attribute__((visibility("default"))) void convoy_make_nccl_backend_1(
    const convoy::comm::NcclGathering& gathering, c10::intrusive_ptr<c10d::Backend>& backend) {
  auto options = c10d::ProcessGroupNCCL::Options::create(
      /*is_high_priority_stream=*/true);  // its blocks go before products
  options->timeout = gathering.timeout;
  backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>("nccl", gathering.store), gathering.rank,
      gathering.size, options);
}
