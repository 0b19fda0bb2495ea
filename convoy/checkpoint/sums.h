#pragma once

#include <map>
#include <string>

#include "convoy/comm/group.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/parallel/run/state.h"

namespace convoy::checkpoint {

/// Checksums of the tensors of a state, of which each rank adds those of its pieces.
class Sums {
 public:
  explicit Sums(const parallel::State& state);

  /// `values` on the host, from element `begin` of the tensor on.
  void add(size_t tensor, const at::Tensor& values, int64_t begin);

  /// Of all ranks, by name.
  std::map<std::string, uint64_t> together(const comm::Group& group);

 private:
  std::vector<std::string> names_;
  at::Tensor sums_;
};

/// The manifest's checksum of each tensor that `files` hold, where there is one.
std::map<std::string, uint64_t> expected_sums(const formats::SafetensorsFolder& files);

}  // namespace convoy::checkpoint
