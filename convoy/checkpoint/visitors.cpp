#include "convoy/checkpoint/visitors.h"
#include "convoy/comm/to_host.h"

#include <ATen/ATen.h>

namespace convoy::checkpoint {

std::vector<bool> who_sees(const std::filesystem::path& file, const comm::Group& group) {
  std::error_code error;
  const bool here = std::filesystem::exists(file, error);
  const auto all = group.all_gather(at::full({1}, here, at::kLong), "look for files");
  std::vector<bool> out;
  for (int r = 0; r < group.size(); ++r) out.push_back(comm::item<int64_t>(all[r]) != 0);
  return out;
}

void bring_pieces(const parallel::State& state, const std::vector<bool>& sees,
                  const comm::Group& group, const TakePiece& take) {
  constexpr const char* kLabel = "bring pieces";
  constexpr int64_t kAtOnce = int64_t{64} << 20;  // bytes that rank 0 has room for beside its own
  constexpr int64_t kEntries = 5;  // tensor, first element, rows, elements of each, stride
  for (int rank = 1; rank < group.size(); ++rank) {
    if (sees[static_cast<size_t>(rank)] || (group.rank() != 0 && group.rank() != rank)) continue;
    if (group.rank() == rank) {
      std::vector<int64_t> list;  // kEntries numbers for each piece
      for (size_t t = 0; t < state.size(); ++t) {
        for (const auto& piece : state[t].pieces) {
          if (!piece.owned) continue;
          for (const auto& part : piece.parts(kAtOnce)) {
            list.insert(list.end(), {static_cast<int64_t>(t), part.begin, part.rows(),
                                     part.length(), part.stride});
          }
        }
      }
      group.start_send(at::full({1}, static_cast<int64_t>(list.size()), at::kLong), 0, kLabel)
          .wait();
      if (!list.empty()) group.start_send(at::tensor(list, at::kLong), 0, kLabel).wait();
      for (const auto& tensor : state) {
        for (const auto& piece : tensor.pieces) {
          if (!piece.owned) continue;
          for (const auto& part : piece.parts(kAtOnce)) {
            group.start_send(part.on_host(), 0, kLabel).wait();
          }
        }
      }
      continue;
    }
    auto size = at::zeros({1}, at::kLong);
    group.start_receive(size, rank, kLabel).wait();
    auto list = at::zeros({comm::item<int64_t>(size)}, at::kLong);
    if (list.numel() > 0) group.start_receive(list, rank, kLabel).wait();
    const auto* entry = list.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < list.numel(); i += kEntries, entry += kEntries) {
      const auto t = static_cast<size_t>(entry[0]);
      const int64_t rows = entry[2], length = entry[3], stride = entry[4];
      auto values = at::empty({rows * length}, at::TensorOptions().dtype(state.at(t).dtype));
      group.start_receive(values, rank, kLabel).wait();
      if (stride > 0) values = values.view({rows, length});
      take(t, {.begin = entry[1], .values = values, .stride = stride});
    }
  }
}

}  // namespace convoy::checkpoint
