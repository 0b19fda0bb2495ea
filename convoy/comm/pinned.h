#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace convoy::comm {

/// A contiguous tensor's memory as bytes, which are no part of any graph.
at::Tensor bytes_of(const at::Tensor& tensor);

/// `bytes` of the host's memory, pinned, so that copies from and to a GPU run beside it. Torch's
/// own pool rounds up to a power of two, which may be twice as much.
at::Tensor pinned_bytes(int64_t bytes);

/// A stretch of a tensor, in bytes.
struct PinnedPiece {
  size_t tensor = 0;
  int64_t begin = 0, bytes = 0;
};

/// Tensors of these sizes in bytes cut into rounds of at most `room` bytes, in order.
std::vector<std::vector<PinnedPiece>> rounds_of(const std::vector<int64_t>& sizes, int64_t room);

/// Copies (from, to): contiguous tensors of a device into the host's of the same bytes, through two
/// pinned buffers of `room` bytes by turns: one fills while the other is emptied. The host waits.
void download_all(const std::vector<std::pair<at::Tensor, at::Tensor>>& copies,
                  int64_t room = int64_t{64} << 20);

}  // namespace convoy::comm
