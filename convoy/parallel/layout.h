#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "convoy/parallel/parallelism.h"
#include "convoy/parallel/tensor/cut.h"

namespace convoy::parallel {

/// Units that each block reads, and the sizes of their gradients.
struct ModelTable {
  std::vector<std::vector<int64_t>> units_of_block;
  std::vector<int64_t> unit_bytes;
  /// Units whose values no backward asks for, by unit: embedding tables, biases. Empty: none.
  std::vector<bool> idle_in_backward = {};
  /// Units that are not trained, by unit. Empty: none.
  std::vector<bool> frozen = {};

  int64_t num_blocks() const { return static_cast<int64_t>(units_of_block.size()); }
  int64_t num_units() const { return static_cast<int64_t>(unit_bytes.size()); }
  bool read_in_backward(int64_t unit) const {
    return idle_in_backward.empty() || !idle_in_backward[static_cast<size_t>(unit)];
  }
  bool is_frozen(int64_t unit) const {
    return !frozen.empty() && frozen[static_cast<size_t>(unit)];
  }
  /// Returns the units whose gradient is complete after each block's backward, by block; or the
  /// frozen ones that nobody reads after it.
  std::vector<std::vector<int64_t>> units_finished_by_block(bool of_frozen = false) const;
  /// Units in the order in which the last micro-batch's backward finishes them, frozen ones last.
  std::vector<int64_t> backward_order() const;
  /// Returns the lowest block that reads `unit`: after its backward the unit's gradient is
  /// complete. -1: none does.
  int64_t last_reader_in_backward(int64_t unit) const;
};

/// Cuts a row of gradients into buckets of at least `bytes` (the last may be smaller): one
/// collective each.
class BucketCutter {
 public:
  explicit BucketCutter(int64_t bytes) : bytes_(bytes), filled_(bytes) {}

  /// Whether the next gradient, of `size` bytes, begins a bucket; it must where it is of another
  /// kind.
  bool begins(int64_t size, bool other_kind = false) {
    const bool fresh = filled_ >= bytes_ || other_kind;
    filled_ = size + (fresh ? 0 : filled_);
    return fresh;
  }

 private:
  int64_t bytes_, filled_;
};

/// Elements [begin, end) of a flat buffer.
struct Extent {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t length() const { return end - begin; }
  bool operator==(const Extent&) const = default;
};

/// State of a parameter, one flat buffer each. Weights of 16 bits that are trained have
/// masters.
enum class Kind { Weights, Masters, Gradients, Moments };

/// Facts of a parameter that a layout needs.
struct ParamShape {
  Shape shape;         ///< global
  bool decays = true;  ///< by weight decay
  TensorCut cut = {};
  std::optional<RowReads> row_reads = {};
};

/// A unit's place in the flat order: first its decayed, then its other parameters.
struct UnitPlace {
  Extent all;
  int64_t decay_end = 0;       ///< [all.begin, decay_end) decays, the rest does not
  std::vector<Extent> params;  ///< in the order in which they were given
};

/// Neighbouring units that are reduced and gathered at once.
struct Bucket {
  std::vector<int64_t> units;
  Extent all;
  /// Whether it holds experts that expert ranks deal out: its parts lie on the ranks that have the
  /// same ones.
  bool of_experts = false;
};

/// Some elements of one parameter, in one rank's part of a bucket: rows that lie side by side.
struct Piece {
  int64_t unit = 0;
  int64_t param = 0;   ///< of the unit
  int64_t begin = 0;   ///< in the whole parameter, flattened
  int64_t place = 0;   ///< in the flat order
  int64_t length = 0;  ///< of a row
  bool owned = true;   ///< of all stages and tensor-parallel ranks that have them one counts them
  int64_t rows = 1;
  int64_t global_stride = 0;  ///< from row to row in the whole parameter; of one row 0
  int64_t local_stride = 0;   ///< in the flat order

  /// End of the last row in the flat order.
  int64_t end() const { return place + (rows - 1) * local_stride + length; }
};

/// Calls `use` with each row of a piece, a piece itself.
template <class Use>
void each_row(const Piece& piece, const Use& use) {
  auto row = piece;
  row.rows = 1;
  row.global_stride = row.local_stride = 0;
  for (int64_t r = 0; r < piece.rows; ++r) {
    use(row);
    row.begin += piece.global_stride;
    row.place += piece.local_stride;
  }
}

/// First and last block of each virtual stage of a rank.
using VirtualStages = std::vector<std::pair<int64_t, int64_t>>;

/// Blocks of each stage of a pipeline, in ascending order.
using Stages = std::vector<std::vector<int64_t>>;

/// Spread of a step, and the place of this rank in it. Of Parallelism the layout reads the stage of
/// ZeRO, bucket_bytes, keep_bytes, offload, row_tables and sequence_parallel.
struct LayoutOptions {
  Parallelism parallelism = {};
  int num_parts = 1;            ///< ranks that share out a bucket
  int num_context_ranks = 1;    ///< of these those next to each other
  bool low_precision = false;   ///< weights of 16 bits beside fp32 masters
  bool shares_weights = false;  ///< the ranks are threads on one copy of weights and moments
  bool trains = true;           ///< else no gradients and no moments are held
  Stages stages = {};           ///< of a pipeline; empty: all blocks are here
  int pipeline_stage = 0;       ///< stage of this rank
  TensorPlace tensor = {};      ///< among those that share out parameters

  /// Whether tables with ParamShape::row_reads are kept by rows: row r by rank r mod num_parts.
  bool by_rows() const { return parallelism.keeps_rows(trains); }
};

/// Multiple of 64 bytes for every dtype that is in use. The bits of torch's fused AdamW do not
/// depend on cuts at its multiples.
inline constexpr int64_t kAlignment = 32;

/// Places of all parameters, and the part of each that each rank of a group keeps: numbers only.
///
/// Blocks and units have the same numbers on all ranks of a pipeline; those of other stages have no
/// place. All held parameters have one in a *flat order*: units in backward order, those that are
/// not trained last, buckets of neighbours, each bucket cut into as many equal parts as there are
/// ranks, of whole kAlignment elements; the gaps stay zero. (A bucket of experts, of which each
/// expert rank has others, has a part for each rank that has the same.) Part r of every bucket is
/// rank r's *own*: it counts them in norms, updates them where updates are shared out, draws, reads
/// and writes them. A buffer that is sharded holds a rank's own parts one after the other (of
/// weights all of the buckets that stay whole), any other the whole flat order. One rank keeps
/// shards (all of a bucket) of what stages 2 and 3 offload: it is whole for a while only.
///
/// Units that are kept by rows have no place in the flat order, whatever the stage of ZeRO.
class Layout {
 public:
  Layout() = default;
  /// Shapes by unit. The layout fills in the units' bytes in `table`.
  using Shapes = std::vector<std::vector<ParamShape>>;
  Layout(ModelTable table, Shapes params, const LayoutOptions& options);
  /// Makes a layout that shares the shapes `params` with other layouts of the same parameters.
  Layout(ModelTable table, std::shared_ptr<const Shapes> params, const LayoutOptions& options);

  /// Table of the blocks that are held.
  const ModelTable& table() const { return table_; }
  bool holds(int64_t block) const { return stage_of(block) == options_.pipeline_stage; }
  /// Returns the stage that holds a block.
  int stage_of(int64_t block) const { return stage_of_[static_cast<size_t>(block)]; }
  /// Returns the first and the last block of each stretch of neighbours that this stage holds, or
  /// another.
  VirtualStages virtual_stages() const { return virtual_stages(options_.pipeline_stage); }
  VirtualStages virtual_stages(int stage) const;
  bool holds_unit(int64_t unit) const { return bucket_of(unit) >= 0; }
  /// Returns the stages that hold a unit, in ascending order.
  const std::vector<int>& stages_of(int64_t unit) const {
    return stages_of_[static_cast<size_t>(unit)];
  }
  /// Whether another stage holds a unit of this one, too: its gradient is summed over them. Such a
  /// unit has a bucket of its own, of the same size on all.
  bool is_tied(int64_t unit) const { return holds_unit(unit) && stages_of(unit).size() > 1; }
  /// Layout of another stage.
  Layout of_stage(int stage) const;
  const LayoutOptions& options() const { return options_; }
  const std::vector<UnitPlace>& units() const { return units_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  bool of_experts(int64_t bucket) const { return buckets_[static_cast<size_t>(bucket)].of_experts; }
  /// Parts that a bucket is cut into.
  int num_parts(int64_t bucket) const { return num_parts(of_experts(bucket)); }
  int64_t num_buckets() const { return static_cast<int64_t>(buckets_.size()); }
  /// Buckets with gradients and moments: the first ones.
  int64_t num_trained_buckets() const { return num_trained_; }
  /// Buckets with elements of a kind.
  int64_t num_buckets(Kind kind) const {
    const bool apart = kind == Kind::Masters && options_.low_precision;
    return apart || kind == Kind::Gradients || kind == Kind::Moments ? num_trained_ : num_buckets();
  }
  /// Returns the kind that holds a bucket's masters: of fp32, and of what is not trained, the
  /// weights.
  Kind held_as(Kind kind, int64_t bucket) const {
    const bool apart = options_.low_precision && bucket < num_trained_;
    return kind == Kind::Masters && !apart ? Kind::Weights : kind;
  }
  /// Bucket of a unit; -1: the unit is not held.
  int64_t bucket_of(int64_t unit) const { return bucket_of_[static_cast<size_t>(unit)]; }
  /// Returns the buckets of a block's units, each once.
  const std::vector<int64_t>& buckets_of_block(int64_t block) const {
    return buckets_of_block_[static_cast<size_t>(block)];
  }
  /// Buckets of a block whose values its backward asks for.
  const std::vector<int64_t>& buckets_of_backward(int64_t block) const {
    return buckets_of_backward_[static_cast<size_t>(block)];
  }

  /// Elements of the flat order.
  int64_t num_elements() const { return buckets_.empty() ? 0 : buckets_.back().all.end; }
  bool is_sharded(Kind kind) const;
  /// Whether a bucket is sharded: some buckets of weights may stay whole.
  bool is_sharded(Kind kind, int64_t bucket) const {
    return is_sharded(kind) && !(are_weights(kind) && stays_whole(bucket));
  }
  /// Whether a kind is offloaded, a bucket of it being in the device's memory when needed: moments
  /// and masters of 16 bits; gradients (stages 2, 3); weights (stage 3).
  bool offloaded(Kind kind) const;
  /// Elements that a rank keeps.
  int64_t kept(Kind kind) const { return begin_in(kind, num_buckets(kind)); }
  /// Range of a bucket that a rank keeps, in the flat order.
  Extent kept(Kind kind, int64_t bucket, int rank) const {
    return is_sharded(kind, bucket) ? part(bucket, rank)
                                    : buckets_[static_cast<size_t>(bucket)].all;
  }
  /// Whether each rank updates its own parts only; the others' come by a gather.
  bool shares_out_updates() const {
    return (options_.num_parts > 1 &&
            (options_.parallelism.stage_of_zero() >= 1 || options_.shares_weights)) ||
           is_sharded(Kind::Gradients);
  }
  /// Whether the others' parts of a bucket come right after the updates.
  bool gathers_updates(int64_t bucket) const {
    const bool alone = of_experts(bucket) && num_parts(bucket) == 1;
    return shares_out_updates() && !is_sharded(Kind::Weights, bucket) && !alone;
  }

  /// Units that are kept by rows: a table each.
  const std::vector<int64_t>& row_units() const { return row_units_; }
  bool is_by_rows(int64_t unit) const;
  /// Returns the first block that reads such a unit: after its backward the gradient is complete.
  int64_t first_reader_of_rows(int64_t unit) const;
  /// [rows, width] of such a unit.
  const ParamShape& row_table(int64_t unit) const {
    return shapes()[static_cast<size_t>(unit)].front();
  }
  /// Rows of it that a rank keeps.
  int64_t kept_rows(int64_t unit, int rank) const;

  /// Returns the parameters of a unit that is held whose gradients are parts, to be summed over the
  /// tensor ranks: of those that each has all of, the ones that say so (TensorCut::partial_grad),
  /// and where the ranks share out tokens, all.
  std::vector<Extent> summed_over_tensor(int64_t unit) const;
  bool sums_over_tensor(int64_t unit) const { return !summed_over_tensor(unit).empty(); }

  /// A rank's own part of a bucket in the flat order.
  Extent part(int64_t bucket, int rank) const;
  /// Range of a bucket that a rank updates: its own part, or all.
  Extent updated(int64_t bucket, int rank) const {
    return shares_out_updates() ? part(bucket, rank) : buckets_[static_cast<size_t>(bucket)].all;
  }
  /// Place in the rank's buffer of a kind, of a place in the flat order.
  int64_t place_in(Kind kind, int64_t bucket, int rank, int64_t place) const;
  /// Stretches of a bucket, or of a unit, that belong to no parameter.
  std::vector<Extent> gaps(int64_t bucket) const;
  std::vector<Extent> gaps_of_unit(int64_t unit) const;
  /// Pieces of parameters in a rank's own parts: of a matrix that is cut along its inner dimension,
  /// a piece of many rows. Every element of a model has one owner among the parts of all stages and
  /// tensor-parallel ranks.
  std::vector<Piece> pieces(int rank) const;
  /// Pieces among the elements `extent` of a bucket.
  std::vector<Piece> pieces(int64_t bucket, const Extent& extent) const;
  /// A rank's own part of a bucket but for elements that another rank owns: the part that its norm
  /// counts.
  std::vector<Extent> counted(int64_t bucket, int rank) const;

 private:
  const Shapes& shapes() const { return *params_; }
  bool are_weights(Kind kind) const {
    return kind == Kind::Weights || (kind == Kind::Masters && !options_.low_precision);
  }
  int num_parts(bool of_experts) const;
  bool stays_whole(int64_t bucket) const;
  int64_t begin_in(Kind kind, int64_t bucket) const;
  bool owns(int64_t unit, size_t param) const;

  ModelTable table_;
  LayoutOptions options_;
  std::shared_ptr<const Shapes> params_;         // the same for all stages
  std::vector<int> stage_of_;                    // [block]
  std::vector<std::vector<int>> stages_of_;      // [unit]
  std::vector<std::vector<int64_t>> all_units_;  // [block], held or not
  std::vector<int64_t> row_units_;
  std::vector<UnitPlace> units_;
  std::vector<Bucket> buckets_;
  int64_t num_trained_ = 0;
  // [bucket] Elements before it in a buffer of parts, and in one of weights, some of them whole.
  std::vector<int64_t> parts_before_{0}, weights_before_{0};
  std::vector<int64_t> bucket_of_;
  std::vector<std::vector<int64_t>> buckets_of_block_, buckets_of_backward_;
};

}  // namespace convoy::parallel
