#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

/// Returns for each rank whether it finds `file`, which rank 0 does: hosts need not share its
/// folder. Collective.
std::vector<bool> who_sees(const std::filesystem::path& file, const comm::Group& group);

/// Some elements of tensor number `tensor` of a state, on the host.
using TakePiece = std::function<void(size_t tensor, const parallel::StatePiece& piece)>;

/// Brings the pieces of ranks that do not see the files to rank 0, which takes them one by one.
void bring_pieces(const parallel::State& state, const std::vector<bool>& sees,
                  const comm::Group& group, const TakePiece& take);

}  // namespace convoy::checkpoint
