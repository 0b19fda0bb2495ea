#pragma once

#include <set>
#include <string>
#include <vector>

#include "convoy/parallel/buffers/state.h"
#include "convoy/parallel/buffers/types.h"
#include "convoy/parallel/buffers/update.h"
#include "convoy/parallel/row_tables/torch/row_table.h"

namespace convoy::parallel {

/// Tables of a replica that are kept by rows.
class RowTables {
 public:
  /// Tables that the layout of `flat` keeps by rows, over the ranks that share a step's samples.
  RowTables(const nn::BlockList& blocks, FlatBuffers& flat, const comm::Group& ranks);

  bool empty() const { return tables_.empty(); }
  RowTable& of(int64_t unit);

  /// Fetches the rows that the blocks read for these micro-batches.
  void fetch(int64_t unit, const std::vector<MicroBatch>& micro_batches, const StepInput& input,
             nn::Mode mode);

  void draw(const std::set<std::string>& names, uint64_t seed);
  void restart();
  /// Brings all rows up to date.
  void make_up();
  /// Adds the own rows to the pieces of the tensors: to weights, or to the optimizer's moments.
  void add_weights(State& state) const;
  void add_moments(State& state, const std::vector<optim::StateSpec>& specs) const;

  int64_t weight_bytes() const;
  int64_t optimizer_bytes() const;
  int64_t fetched_bytes() const;

 private:
  StatePiece piece_of(const RowState& state, size_t which) const;

  const nn::BlockList& blocks_;
  comm::Group ranks_;
  std::vector<RowTable> tables_;
};

}  // namespace convoy::parallel
