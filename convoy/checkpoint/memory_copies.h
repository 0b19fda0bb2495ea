#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/checkpoint/copy_slots.h"
#include "convoy/comm/group.h"
#include "convoy/formats/safetensors.h"
#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

class Sums;
struct CopyRange;

/// Place of a rank among the hosts of a job.
struct HostPlace {
  int host = 0;
  int num_hosts = 1;
  int local_rank = 0;
  int num_local_ranks = 1;

  bool is_first() const { return local_rank == 0; }
};

/// A training's state in memory that outlives its processes: the two newest copies, in two slots
/// that are written by turns. Each is a folder checkpoint-<step> as on a disk, so whatever reads
/// checkpoints reads them. Each of several hosts keeps copies of all of the state: its own ranks
/// have it, or hosts send each other what they have.
class MemoryCopies {
 public:
  /// `folder`: of CopySlots, which all ranks of a host see. `own`: small files of each copy that
  /// every host writes for itself, by name.
  explicit MemoryCopies(std::filesystem::path folder, const HostPlace& place = {},
                        std::map<std::string, std::string> own = {});
  ~MemoryCopies();

  const std::filesystem::path& folder() const { return slots_.folder(); }
  const CopySlots& slots() const { return slots_; }
  const HostPlace& place() const { return place_; }
  const std::map<std::string, std::string>& own() const { return own_; }
  /// Bytes of both slots.
  static int64_t bytes_of_both(const parallel::State& weights, const parallel::State& moments);

  /// Copies the state after `step` in place of the older copy; collective. The ranks of each host
  /// have all pieces among them, of which each `writes` some; with `sends` all ranks together do,
  /// and each host sends the others what it has. `texts`: small files beside the tensors, rank
  /// 0's, by name. The copy gets its name once all ranks have written, and sent, their parts;
  /// until then the newer one stays. Throws FileError on all ranks.
  void write(int64_t step, const parallel::State& weights, const parallel::State& moments,
             const std::map<std::string, std::string>& texts, const comm::Group& group,
             bool sends = false);

  /// Number of slots that this process has written: the first time takes the system many times as
  /// long as later ones. Not collective.
  int num_written() const { return (mapped_[0] ? 1 : 0) + (mapped_[1] ? 1 : 0); }

 private:
  /// Place of a tensor of the whole state.
  struct Home {
    size_t file;
    size_t begin;
  };

  void lay_out(const parallel::State& weights, const parallel::State& moments);
  int prepare(const comm::Group& group);
  std::vector<CopyRange> put(const parallel::State& state, int slot, Sums& sums);
  void finish(int64_t step, const parallel::State& state, const std::vector<uint64_t>& sums,
              const std::map<std::string, std::string>& texts) const;

  CopySlots slots_;
  HostPlace place_;
  std::map<std::string, std::string> own_;
  std::vector<CopyFile> files_;                  // weights, moments
  std::vector<formats::SafetensorsPlan> plans_;  // where tensors lie in them
  std::vector<Home> home_;                       // [tensor] of weights, then of moments
  std::array<std::unique_ptr<MappedSlot>, 2> mapped_;
  std::array<bool, 2> has_unchanging_{};        // slots with what no step changes
  std::map<size_t, uint64_t> unchanging_sums_;  // [tensor]: of this rank's pieces
};

}  // namespace convoy::checkpoint
