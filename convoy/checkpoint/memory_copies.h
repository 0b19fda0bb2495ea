#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/formats/safetensors.h"
#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

class MappedSlot;
class Sums;

/// A training's state in memory that outlives its processes: the two newest copies, in two slots
/// that are written by turns. Each is a folder checkpoint-<step> as on a disk, whose tensors are
/// links to files in memory (launch::KeptMemory), so whatever reads checkpoints reads them.
class MemoryCopies {
 public:
  /// `folder`: with links memory-0 to memory-3 to files in memory, which all ranks see.
  explicit MemoryCopies(std::filesystem::path folder);
  ~MemoryCopies();

  const std::filesystem::path& folder() const { return folder_; }
  /// Bytes of both slots.
  static int64_t bytes_of_both(const parallel::State& weights, const parallel::State& moments);

  /// Copies the state after `step` in place of the older copy; collective. `texts`: small files
  /// beside the tensors, rank 0's, by name. The copy gets its name once all ranks have written
  /// their parts; until then the newer one stays. Throws FileError on all ranks.
  void write(int64_t step, const parallel::State& weights, const parallel::State& moments,
             const std::map<std::string, std::string>& texts, const comm::Group& group);

  // Not collective.
  /// Frees slots to which no copy leads; no process may have written them in this start.
  void free_unused() const;
  /// Bytes of this host that the slots hold now.
  int64_t held() const;
  /// Number of slots that this process has written: the first time takes the system many times as
  /// long as later ones.
  int num_written() const { return (mapped_[0] ? 1 : 0) + (mapped_[1] ? 1 : 0); }

 private:
  /// A file of a slot: its name, and where tensors lie in it.
  struct File {
    std::string name;
    formats::SafetensorsPlan plan;
  };
  /// Place of a tensor of the whole state.
  struct Home {
    size_t file;
    size_t begin;
  };

  void lay_out(const parallel::State& weights, const parallel::State& moments);
  int prepare(const comm::Group& group);
  void put(const parallel::State& state, int slot, bool heads, Sums& sums);

  std::filesystem::path folder_;
  std::vector<File> files_;  // weights, moments
  std::vector<Home> home_;   // [tensor] of weights, then of moments
  std::array<std::unique_ptr<MappedSlot>, 2> mapped_;
};

}  // namespace convoy::checkpoint
