#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace convoy::schedule {

/// What a step is made of. Operands: block, unit, bucket or micro-batch, as noted.
enum class Op {
  Load,           ///< micro_batch: take this rank's rows
  Forward,        ///< block, micro_batch
  Loss,           ///< micro_batch: note the sum and the count that the last block returned
  Recompute,      ///< block, micro_batch: forward again, for a backward that follows
  Backward,       ///< block, micro_batch
  Accumulate,     ///< unit, micro_batch: its gradient of this micro-batch is finished; add it
  Reduce,         ///< bucket: start summing its units' gradients over the data-parallel ranks
  ReduceLoss,     ///< sum loss and count over the data-parallel ranks
  Clip,           ///< wait for all reductions, find the norm, set the scale
  OptimizerStep,  ///< update all weights
};

struct Instruction {
  Op op;
  int64_t block = -1;
  int64_t unit = -1;  ///< unit or bucket
  int64_t micro_batch = -1;

  bool operator==(const Instruction&) const = default;
};

using Program = std::vector<Instruction>;

/// Which units each block reads, and how large their gradients are.
struct ModelTable {
  std::vector<std::vector<int64_t>> units_of_block;
  std::vector<int64_t> unit_bytes;

  int64_t num_blocks() const { return static_cast<int64_t>(units_of_block.size()); }
  int64_t num_units() const { return static_cast<int64_t>(unit_bytes.size()); }
  /// The units whose gradient is complete after each block's backward, by block.
  std::vector<std::vector<int64_t>> units_finished_by_block() const;
  /// Units in the order in which the last micro-batch's backward finishes them.
  std::vector<int64_t> backward_order() const;
  /// The lowest block that reads `unit`: after its backward the unit's gradient is complete.
  int64_t last_reader_in_backward(int64_t unit) const;
};

/// Cuts the units, in backward order, into buckets of at least `bucket_bytes` (the last may be
/// smaller): one collective each.
std::vector<std::vector<int64_t>> make_buckets(const ModelTable& table, int64_t bucket_bytes);

/// Forward and backward of `num_micro_batches`, one after the other; gradients summed over ranks
/// while the last backward goes on; one optimizer step. Covers one device, DataParallel and
/// DistributedDataParallel. Blocks in `recomputed` keep their inputs only until their backward.
Program data_parallel_program(const ModelTable& table,
                              const std::vector<std::vector<int64_t>>& buckets,
                              int64_t num_micro_batches, const std::set<int64_t>& recomputed = {});

/// Throws InternalError unless every backward follows its forward, what is recomputed is so between
/// the backward of the block after it and its own, every gradient is accumulated once per
/// micro-batch after all its readers, every bucket is reduced once after its last accumulation, and
/// the step ends with Clip and OptimizerStep.
void check(const Program& program, const ModelTable& table,
           const std::vector<std::vector<int64_t>>& buckets, int64_t num_micro_batches);

std::string to_text(const Instruction& instruction);
std::string to_text(const Program& program);

}  // namespace convoy::schedule
