#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/comm/group.h"

namespace convoy::comm {

/// Waits until `is_over` has returned true on every rank. `is_over` waits on this rank for up to
/// the given time. However long that takes, no collective waits for it longer than a moment.
void until_all(const Group& group, const std::string& label,
               const std::function<bool(std::chrono::milliseconds)>& is_over);

/// Duration of work that other ranks wait for.
enum class Lasts {
  Briefly,
  Long,  ///< as long as a disk needs, perhaps longer than a collective may wait: it runs on a
         ///< thread of its own, and must not use the group
};

/// Runs `look` on rank 0 and returns its result on all ranks; an error it throws is thrown on all.
/// For decisions that depend on files: each rank may see others, and all must decide alike.
Json ask_main(const comm::Group& group, const std::string& label, const std::function<Json()>& look,
              Lasts lasts = Lasts::Briefly);

/// Runs `look` on one of the ranks, as ask_main() does on rank 0.
Json ask_rank(const Group& group, int rank, const std::string& label,
              const std::function<Json()>& look);

/// Runs `work` on every rank and waits until all are done. An error of one rank is thrown on all:
/// that of the lowest rank with one.
void each_rank(const Group& group, const std::string& label, const std::function<void()>& work,
               Lasts lasts = Lasts::Briefly);

/// Throws UsageError on all ranks, naming the first entry in which a rank differs from rank 0,
/// unless `entries` are the same everywhere. `what` is the thing that they describe: "model".
void check_agreement(const Group& group, const std::vector<std::string>& entries,
                     const std::string& what);

/// Throws UsageError as check_agreement() does, from the entries, one a line, of rank 0 and of
/// `rank`.
void check_same(const std::string& first, const std::string& other, int rank,
                const std::string& what);

}  // namespace convoy::comm
