#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace convoy::schedule {

/// Where a part of the state has its place.
enum class Place { Device, Cpu, Disk };

struct OffloadOptions {
  Place optimizer = Place::Device;
  Place gradients = Place::Device;
  Place parameters = Place::Device;
  std::filesystem::path folder;  ///< of the disk
  int rank = 0;                  ///< for messages

  bool any() const {
    return optimizer != Place::Device || gradients != Place::Device || parameters != Place::Device;
  }
};

/// In which order a stage of a pipeline computes. Each gives the same sums; they differ in how long
/// the bubble is, and in how many micro-batches are kept for backward.
enum class PipelineSchedule : int {
  Naive,        ///< one micro-batch at a time
  GPipe,        ///< all forwards, then all backwards (Huang et al., 2019)
  OneFOneB,     ///< one forward, one backward in turns (PipeDream, Narayanan et al., 2019)
  Interleaved,  ///< the same where each rank holds several virtual stages (Megatron-LM, Narayanan
                ///< et al., 2021)
  ZeroBubble,   ///< backwards in halves, the second fill the gaps (ZB-H1, Qi et al., 2023; where
                ///< the virtual stages lie in a v: ZB-V, Qi et al., 2024)
  Automatic,    ///< the fastest that is found for what blocks cost (after Varuna, Athlur et al.,
                ///< 2022)
};

/// Which virtual stages a rank of a pipeline of P has.
enum class Placement {
  Loop,  ///< rank s has s, s + P, s + 2P and so on (Megatron-LM, Narayanan et al., 2021)
  V,     ///< rank s has s and 2P - 1 - s: the first rank begins and ends (Qi et al., 2024)
};

/// Products of matrices that a block takes for a row, in floating-point operations.
struct Products {
  double forward = 0, backward = 0;
};

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  int64_t virtual_stages = 2;  ///< of a rank, where it may have several; of auto at most
  /// First block of each virtual stage but the first; empty: by cost.
  std::vector<int64_t> splits = {};
  /// Where virtual stages lie; empty: as is faster, where the schedule allows both.
  std::optional<Placement> placement = {};
};

/// How a run spreads a step over ranks and memory: what its options of these names say.
struct RunOptions {
  int64_t num_micro_batches = 1;
  int64_t zero = 0;                   ///< stage of ZeRO: what each rank keeps a shard of only
  int64_t bucket_bytes = 25 << 20;    ///< of fp32 gradients that are reduced at once, at least
  int64_t keep_bytes = 0;             ///< smaller buckets keep whole weights (stage 3)
  int64_t prefetch = 1;               ///< buckets of weights that are gathered ahead (stage 3)
  bool reshard_after_forward = true;  ///< else gathered weights stay until backward (stage 3)
  bool reduce_each = true;  ///< sharded gradients: reduce every micro-batch, not the last only
  bool recompute = false;   ///< blocks keep their inputs only, and run again before their backward
  OffloadOptions offload = {};
  PipelineOptions pipeline = {};  ///< where the mesh has several stages
  bool trains = true;             ///< else no gradients and no moments are held
  bool low_precision = false;     ///< weights of 16 bits beside fp32 masters
  bool shares_weights = false;    ///< the ranks are threads on one copy of weights and moments
  int64_t state_bytes = 8;        ///< of a parameter, that the optimizer keeps
  /// By block, as profile::trace counts them: what stages are cut by. Empty: by matrix elements.
  std::vector<Products> products = {};
};

}  // namespace convoy::schedule
