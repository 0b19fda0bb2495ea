#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

// Interface of libconvoy_nccl.so, which is a library of its own because it needs CUDA at load time.
namespace convoy::comm {

struct NcclGathering {
  c10::intrusive_ptr<c10d::Store> store;
  int rank;
  int size;
  std::chrono::milliseconds timeout;
};

using MakeNcclBackend = void (*)(const NcclGathering&, c10::intrusive_ptr<c10d::Backend>&);
inline constexpr const char* kMakeNcclBackend = "convoy_make_nccl_backend_1";

}  // namespace convoy::comm
