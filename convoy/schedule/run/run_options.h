#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace convoy::schedule {

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

/// Costs of a block for a micro-batch, alike on all ranks: counted (profile::trace), its times are
/// operations of products of matrices; read from a file, they are seconds.
struct BlockCounts {
  double forward = 0;
  double backward = 0;  ///< both halves
  double weight = 0;    ///< of that the half that no stage waits for
  // Bytes of tensors; weights and their gradients are left out.
  double kept = 0;                 ///< from forward until backward, what it returns among it
  double put_off = 0;              ///< from the first half of a backward until the second
  double returned = 0;             ///< of what it returns: all that is kept where it is recomputed
  double sent = 0, sent_grad = 0;  ///< messages to a stage behind, and back
  double send = 0, send_grad = 0;  ///< seconds of these messages
  /// About how many operations a GPU launches, whatever the number of rows; none in a file.
  double forward_kernels = 0, backward_kernels = 0;
  double forward_made = 0, backward_made = 0;  ///< bytes that they return; none in a file

  /// Costs of `rows` times the rows.
  BlockCounts times(double rows) const {
    return {forward * rows,      backward * rows,     weight * rows,   kept * rows,
            put_off * rows,      returned * rows,     sent * rows,     sent_grad * rows,
            send * rows,         send_grad * rows,    forward_kernels, backward_kernels,
            forward_made * rows, backward_made * rows};
  }

  bool operator==(const BlockCounts&) const = default;
};

/// Blocks that are recomputed, in a model that does not recompute all.
struct RecomputeOptions {
  /// Blocks of each stage, those that save most; one number: of every stage as many.
  std::vector<int64_t> of_stage = {};
  bool to_fit = false;  ///< the fewest so that no stage keeps more than PipelineOptions::memory

  bool any() const { return to_fit || !of_stage.empty(); }
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
};

/// Times at which stage 3 of ZeRO gathers weights and releases them.
struct GatherOptions {
  int64_t prefetch = 1;               ///< buckets that are gathered ahead of their use
  bool reshard_after_forward = true;  ///< else weights stay from forward until backward

  /// Number of times that a micro-batch gathers weights.
  int times() const { return reshard_after_forward ? 2 : 1; }
};

/// Layout of a step over ranks and memory, from the options of these names.
struct RunOptions {
  int64_t num_micro_batches = 1;
  int64_t zero = 0;                 ///< stage of ZeRO: what each rank keeps a shard of only
  int64_t bucket_bytes = 25 << 20;  ///< of fp32 gradients that are reduced at once, at least
  int64_t keep_bytes = 0;           ///< smaller buckets keep whole weights (stage 3)
  GatherOptions gathers = {};
  bool reduce_each = true;  ///< sharded gradients: reduce every micro-batch, not the last only
  bool recompute = false;   ///< blocks keep their inputs only, and run again before their backward
  RecomputeOptions recomputed = {};  ///< some blocks that do so; of no meaning with `recompute`
  OffloadOptions offload = {};
  PipelineOptions pipeline = {};   ///< where the mesh has several stages
  bool sequence_parallel = false;  ///< tensor ranks share out the tokens between their products
  bool row_tables = false;         ///< see keeps_rows()
  int64_t batch_rows = 1;       ///< samples of a micro-batch, at most: how many rows they may read
  bool trains = true;           ///< else no gradients and no moments are held
  bool low_precision = false;   ///< weights of 16 bits beside fp32 masters
  bool shares_weights = false;  ///< the ranks are threads on one copy of weights and moments
  int64_t state_bytes = 8;      ///< of a parameter, that the optimizer keeps
  /// Costs by block, of a micro-batch: stages are cut by them and schedules made for them. Empty:
  /// matrix elements, and bytes are not known.
  std::vector<BlockCounts> counts = {};

  /// Whether tables of which a step reads some rows are kept by rows, outside of the buckets that
  /// are reduced, gathered and updated whole.
  bool keeps_rows() const { return row_tables && trains; }
};

}  // namespace convoy::schedule
