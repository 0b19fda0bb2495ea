#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/comm/group.h"

namespace convoy::comm {

/// Waits until `is_over` has been true on every rank, which waits so long for what it stands for
/// here. However long that takes: no collective waits for it longer than a moment.
void until_all(const Group& group, const std::string& label,
               const std::function<bool(std::chrono::milliseconds)>& is_over);

/// What a rank does while others wait for it.
enum class Lasts {
  Briefly,
  Long,  ///< as long as a disk needs, which may be longer than a collective may wait: on a thread
         ///< beside, so that it must not use the group
};

/// What `look` returns on rank 0, told to all ranks; what it throws, all throw. For decisions that
/// hang on files: each rank may see others, and all must decide alike.
Json ask_main(const comm::Group& group, const std::string& label, const std::function<Json()>& look,
              Lasts lasts = Lasts::Briefly);

/// Does `work` on every rank and waits until all are done. What one throws, all throw: the error of
/// the first of them.
void each_rank(const Group& group, const std::string& label, const std::function<void()>& work,
               Lasts lasts = Lasts::Briefly);

/// Throws UsageError on all ranks, naming the first entry in which a rank differs from rank 0,
/// unless `entries` are the same everywhere. `what` is the thing that they describe: "model".
void check_agreement(const Group& group, const std::vector<std::string>& entries,
                     const std::string& what);

/// The same for what one already knows of rank 0 and of another: entries of a line each.
void check_same(const std::string& first, const std::string& other, int rank,
                const std::string& what);

}  // namespace convoy::comm
