#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace convoy::parallel {

class Mesh;

/// Number of ranks along each axis.
struct Degrees {
  int64_t pipeline = 1;
  int64_t replicate = 1;
  int64_t shard = 0;  ///< 0: what the others leave
  int64_t expert = 1;
  int64_t context = 1;
  int64_t tensor = 1;

  /// Ranks with other rows; where `shard` is open, as if it was 1.
  int64_t data() const { return replicate * (shard > 0 ? shard : 1) * expert; }
  /// Ranks that compute the same rows together.
  int64_t of_rows() const { return pipeline * context * tensor; }
  int64_t product() const { return data() * of_rows(); }

  auto operator<=>(const Degrees&) const = default;
};

/// Place of a part of the state.
enum class Place { Device, Cpu, Disk };
const char* name_of(Place place);

struct OffloadOptions {
  Place optimizer = Place::Device;
  Place gradients = Place::Device;
  Place parameters = Place::Device;
  std::filesystem::path folder;  ///< of the disk
  int rank = 0;                  ///< for messages

  bool any() const {
    return optimizer != Place::Device || gradients != Place::Device || parameters != Place::Device;
  }

  auto operator<=>(const OffloadOptions&) const = default;
};

struct ScheduleEntry;

/// Order in which the stages of a pipeline compute: its entry in the table pipeline_schedules().
using PipelineSchedule = const ScheduleEntry*;

extern const ScheduleEntry kNaive, kGPipe, kOneFOneB, kInterleaved, kZeroBubble, kAutomatic;

/// Virtual stages of each rank of a pipeline of P.
enum class Placement {
  Loop,  ///< rank s has s, s + P, s + 2P and so on (Megatron-LM, Narayanan et al., 2021)
  V,     ///< rank s has s and 2P - 1 - s: the first rank begins and ends (Qi et al., 2024)
};

/// Blocks that are recomputed, in a model that does not recompute all.
struct RecomputeOptions {
  /// Blocks of each stage, those that save most; one number: of every stage as many.
  std::vector<int64_t> of_stage = {};
  bool to_fit = false;  ///< the fewest so that no stage keeps more than PipelineOptions::memory

  bool any() const { return to_fit || !of_stage.empty(); }

  auto operator<=>(const RecomputeOptions&) const = default;
};

struct PipelineOptions {
  PipelineSchedule schedule = &kOneFOneB;
  int64_t virtual_stages = 2;  ///< of a rank, where it may have several; of auto at most
  /// First block of each virtual stage but the first; empty: by cost.
  std::vector<int64_t> splits = {};
  /// Placement of virtual stages; empty: the faster one, where the schedule allows both.
  std::optional<Placement> placement = {};
  /// Bytes that a stage may keep for backward; 0: as many as it does, with auto no more than 1f1b.
  int64_t memory = 0;
  /// A schedule from a file: its name, for messages, and its content (see from_csv). Empty:
  /// `schedule` makes one.
  std::string file = {}, csv = {};
  std::string costs = {};  ///< file of what blocks cost; empty: it is counted

  auto operator<=>(const PipelineOptions&) const = default;
};

/// Times at which stage 3 of ZeRO gathers weights and releases them.
struct GatherOptions {
  int64_t prefetch = 1;               ///< buckets that are gathered ahead of their use
  bool reshard_after_forward = true;  ///< else weights stay from forward until backward

  auto operator<=>(const GatherOptions&) const = default;
};

/// Spread of a step over ranks and memory: everything that a user or a plan chooses about it.
/// Comparable and printable; what follows from the model and its precision is StepFacts.
struct Parallelism {
  Degrees ranks = {};
  int64_t rows = 1;           ///< samples of a micro-batch, at most
  int64_t micro_batches = 1;  ///< of a rank's step
  int64_t zero = 0;           ///< stage of ZeRO: what each rank keeps a shard of only
  bool recompute = false;  ///< blocks keep their inputs only, and run again before their backward
  RecomputeOptions recomputed = {};  ///< some blocks that do so; of no meaning with `recompute`
  bool sequence_parallel = false;    ///< tensor ranks share out the tokens between their products
  bool expert_joined = false;        ///< experts multiply the rows of all ranks at once
  bool row_tables = false;           ///< see keeps_rows(); only where a step trains
  GatherOptions gathers = {};
  bool reduce_each = true;  ///< sharded gradients: reduce every micro-batch, not the last only
  int64_t bucket_bytes = 25 << 20;  ///< of fp32 gradients that are reduced at once, at least
  int64_t keep_bytes = 0;           ///< smaller buckets keep whole weights (stage 3)
  OffloadOptions offload = {};
  PipelineOptions pipeline = {};  ///< where there are several stages

  int64_t num_ranks() const { return ranks.product(); }
  /// Ranks that keep a stage's state, together or in several state replicas.
  int64_t state_ranks() const { return ranks.data() * ranks.context; }
  /// Ranks that keep one state replica together, where there are several; 0: all of state_ranks().
  int64_t shard_ranks() const { return ranks.replicate == 1 ? 0 : state_ranks() / ranks.replicate; }
  void set_shard_ranks(int64_t number);
  /// Makes as many of the data ranks of a state replica expert ranks.
  void set_expert_ranks(int64_t number) {
    ranks.shard = ranks.shard * ranks.expert / number;
    ranks.expert = number;
  }
  int64_t global_batch() const { return rows * micro_batches * ranks.data(); }
  int stage_of_zero() const { return static_cast<int>(zero); }
  /// Whether tables of which a step reads some rows are kept by rows, outside of the buckets that
  /// are reduced, gathered and updated whole.
  bool keeps_rows(bool trains) const { return row_tables && trains; }
  /// Whether sharded gradients are reduced after every micro-batch.
  bool reduces_each_shard() const { return zero >= 2 && reduce_each; }
  /// Number of blocks of each stage that are recomputed, where not all are and each has as many.
  int64_t blocks_recomputed() const {
    return recomputed.of_stage.empty() ? 0 : recomputed.of_stage.front();
  }
  void set_blocks_recomputed(int64_t number);
  /// Mesh of the first pipeline's last rank of the first rows, which has most where shares are
  /// uneven.
  Mesh mesh() const;
  Mesh mesh(int rank) const;

  /// "2 pipeline x 4 data, 1f1b, zero 1, 8 x 4 rows": micro-batches of so many rows.
  std::string to_text() const;
  /// Kind of parallelism: "ddp", "zero 3", "pipeline x tensor x zero 1".
  std::string family() const;

  auto operator<=>(const Parallelism&) const = default;
};

}  // namespace convoy::parallel
