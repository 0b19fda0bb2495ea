#include "convoy/checkpoint/host_parts.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "convoy/comm/pinned.h"

namespace convoy::checkpoint {

namespace {

/// Bytes of a GPU that come to the host together, through pinned memory.
constexpr int64_t kBroughtAtOnce = int64_t{64} << 20;

}  // namespace

void keep_own(parallel::State& state, bool all_see) {
  for (auto& tensor : state) {
    for (auto& piece : tensor.pieces) piece.owned = all_see ? piece.writes : piece.owned;
    std::erase_if(tensor.pieces, [](const auto& piece) { return !piece.owned; });
  }
}

void each_on_host(const parallel::State& state, bool backward,
                  const std::function<void(size_t tensor, const parallel::StatePiece& piece)>& use,
                  const std::function<void()>& between) {
  std::vector<std::pair<size_t, parallel::StatePiece>> brought;
  std::vector<std::pair<at::Tensor, at::Tensor>> downloads;
  int64_t bytes = 0;
  const auto use_brought = [&] {
    comm::download_all(downloads);
    for (const auto& [tensor, piece] : brought) use(tensor, piece);
    brought.clear();
    downloads.clear();
    bytes = 0;
  };
  for (size_t i = 0; i < state.size(); ++i) {
    const size_t t = backward ? state.size() - 1 - i : i;
    for (const auto& piece : state[t].pieces) {
      if (piece.values.is_cpu()) {
        use(t, piece);
        continue;
      }
      for (auto& part : piece.parts(kBroughtAtOnce)) {
        if (between) between();
        const auto from = part.values.contiguous();
        part.values = at::empty(from.sizes(), from.options().device(at::kCPU));
        downloads.emplace_back(from, part.values);
        bytes += static_cast<int64_t>(from.nbytes());
        brought.emplace_back(t, std::move(part));
        if (bytes >= kBroughtAtOnce) use_brought();
      }
    }
  }
  use_brought();
}

}  // namespace convoy::checkpoint
