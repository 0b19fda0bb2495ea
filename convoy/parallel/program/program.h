#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/parallel/layout.h"
#include "convoy/parallel/parallelism.h"

namespace convoy::parallel {

/// Operations of a step. Operands: block, unit, bucket, micro-batch or peer, as noted. Where the
/// next block is on another rank, its input and that input's gradient travel.
enum class Op {
  Load,           ///< micro_batch: take this rank's rows
  Gather,         ///< bucket: start collecting its weights from the ranks that own the parts
  Release,        ///< bucket: only the own part of its weights is needed now
  Fetch,          ///< bucket, kind: start bringing offloaded state into memory
  Store,          ///< bucket, kind (and micro_batch of gradients): start writing it back
  Forward,        ///< block, micro_batch
  Loss,           ///< micro_batch: note the sum and the count that the last block returned
  Recompute,      ///< block, micro_batch: forward again, for a backward that follows
  Backward,       ///< block, micro_batch: of its inputs and of its weights
  BackwardInput,  ///< block, micro_batch: the gradient of its inputs, and what needs no second half
  BackwardWeight,  ///< block, micro_batch: the gradient of its weights, from what the first half
                   ///< left
  Send,            ///< block, micro_batch, peer: what the block returned
  Receive,         ///< block, micro_batch, peer: what the block, which the peer holds, returned
  SendGrad,       ///< block, micro_batch, peer: the gradient of what the block of the peer returned
  ReceiveGrad,    ///< block, micro_batch, peer: the gradient of what the block returned
  Accumulate,     ///< unit, micro_batch: its gradient of this micro-batch is finished; add it
  ReduceTensor,   ///< unit, micro_batch: sum what it has of whole parameters over the tensor ranks
  Reduce,         ///< bucket: start summing its gradient over the data-parallel ranks
  ReduceScatter,  ///< bucket, micro_batch: the same, but each rank gets the sum of its own part
  ReduceTied,     ///< unit: sum its reduced gradient over the stages that hold it
  ReduceLoss,     ///< wait for all reductions; sum loss, count and squares of the gradient
  Clip,           ///< find the norm, set the scale
  Update,         ///< bucket: update its weights
  FetchRows,   ///< unit: collect the rows that the micro-batches read from the ranks that own them
  ReduceRows,  ///< unit: sum the gradient of these rows; each rank gets that of its own
  UpdateRows,  ///< unit: update the own ones among them
  ScoreRows,   ///< unit: score all rows of all ranks, for what the last block returned
};

struct Instruction {
  Op op;
  int64_t block = -1;
  int64_t unit = -1;
  int64_t bucket = -1;
  int64_t micro_batch = -1;
  int peer = -1;  ///< a rank of the pipeline, by its stage
  Kind kind = Kind::Weights;

  bool operator==(const Instruction&) const = default;
};

using Program = std::vector<Instruction>;

/// Spread of a step, with the blocks that follow from it.
struct StepOptions {
  Parallelism parallelism = {};
  std::set<int64_t> recomputed = {};  ///< blocks that keep their inputs only until their backward
};

/// Part of the work on a micro-batch. A backward is whole, or comes in two halves (zero bubble, Qi
/// et al., 2023): the one that the stage before waits for, and the one that only this rank needs.
enum class ActionKind { Forward, Backward, BackwardInput, BackwardWeight };

/// An action with its blocks: one micro-batch through neighbouring blocks of a rank.
struct BlockAction {
  ActionKind kind = ActionKind::Forward;
  int64_t first_block = 0, last_block = 0;
  int64_t micro_batch = 0;

  bool operator==(const BlockAction&) const = default;
};

/// [stage] Messages of other stages to a rank, as it receives them, in the order sent.
using Incoming = std::map<int, std::vector<Instruction>>;

/// Program of a step of these actions, in their order; gradients are summed over ranks while
/// backward runs; one optimizer step. Messages of other ranks' blocks are received right before the
/// action that needs them, with those that were sent before them (`incoming`; empty: none), and
/// messages to other ranks are sent right after their action. No weights are gathered or fetched
/// yet.
Program step_program(const Layout& layout, const StepOptions& options,
                     const std::vector<BlockAction>& actions, const Incoming& incoming = {});

/// Forward and backward of all micro-batches, one after the other, and one optimizer step. Sharded
/// state is gathered and reduced accordingly: covers one device, DataParallel,
/// DistributedDataParallel and ZeRO 1 to 3.
Program data_parallel_program(const Layout& layout, const StepOptions& options);

/// Forward of one batch, or of a stage's blocks.
Program forward_program(const Layout& layout, const StepOptions& options);

/// Puts gathers and releases of sharded weights around the instructions that read them.
Program with_gathers(Program program, const Layout& layout, const StepOptions& options);

/// Puts fetches and stores of offloaded state around the instructions that need it: each starts
/// while the bucket before is worked on.
Program with_offload(Program program, const Layout& layout);

/// Kinds of offloaded state that an update reads; all but the gradients change.
std::vector<Kind> offloaded_in_update(const Layout& layout);

/// Adds the instructions for units that are kept by rows, to a step or to a forward program.
Program with_rows(Program program, const Layout& layout, const StepOptions& options);

/// Returns the buckets whose weights an instruction reads.
const std::vector<int64_t>& reads(const Instruction& instruction, const Layout& layout);

bool sends(Op op);
bool receives(Op op);

/// Largest number of weights, in elements, that are gathered at a time.
int64_t most_gathered(const Program& program, const Layout& layout);

std::string to_text(const Instruction& instruction);
std::string to_text(const Program& program);
/// Parses the text that to_text() gave a forward, recomputation, backward or half of one; nothing
/// for any other text.
std::optional<Instruction> block_instruction(std::string_view text);

}  // namespace convoy::parallel
