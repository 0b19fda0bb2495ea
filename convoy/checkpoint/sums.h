#pragma once

#include <map>
#include <string>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

/// Checksums of the tensors of a state, to which each rank adds those of its pieces.
class Sums {
 public:
  explicit Sums(const parallel::State& state);

  /// Adds the checksum of a piece; `values` are its elements, contiguous and on the host.
  void add(size_t tensor, const parallel::StatePiece& piece, const at::Tensor& values) {
    add(tensor, of(piece, values));
  }
  void add(size_t tensor, uint64_t sum);
  /// Checksum of a piece, for add().
  static uint64_t of(const parallel::StatePiece& piece, const at::Tensor& values);

  /// Checksums over all ranks, by number of the tensor; where hosts have sums of their own, over
  /// the ranks of this host.
  std::vector<uint64_t> together(const comm::Group& group, int host = 0, int num_hosts = 1);

 private:
  at::Tensor sums_;
};

/// The manifest's checksum of each tensor that `files` hold, where there is one.
std::map<std::string, uint64_t> expected_sums(const formats::SafetensorsFolder& files);

/// Throws FileError unless a tensor has its checksum, where `expected` has one.
void check_sum(const formats::SafetensorsFolder& files, const std::string& name,
               const std::map<std::string, uint64_t>& expected);

}  // namespace convoy::checkpoint
