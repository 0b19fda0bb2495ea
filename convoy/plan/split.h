#pragma once

#include <compare>
#include <string>
#include <vector>

#include "convoy/schedule/run/mesh.h"
#include "convoy/schedule/run/run_options.h"

namespace convoy::plan {

/// Share of a micro-batch of `rows` rows that a rank computes: one of `tensor` shares of the
/// layers, and one of `context` shares of the positions.
struct BlockShare {
  int64_t rows = 1;
  int tensor = 1, context = 1;
  bool sequence = false;  ///< tensor ranks share out the tokens between their products, too

  auto operator<=>(const BlockShare&) const = default;
};
/// Share of a rank in a run over a mesh.
BlockShare share_of(const schedule::Mesh& mesh, const schedule::RunOptions& options);

/// A way to spread a step over ranks: what `convoy train` is told.
struct Split {
  int pipeline = 1, data = 1, tensor = 1, context = 1;
  int64_t rows = 1;           ///< of a micro-batch
  int64_t micro_batches = 1;  ///< of a rank's step
  int64_t zero = 0;
  bool recompute = false;
  bool sequence = false;  ///< tensor ranks share out the tokens, too
  schedule::PipelineSchedule schedule = &schedule::kOneFOneB;
  /// Places of the optimizer's state, and of the shards of gradients and of weights.
  schedule::Place optimizer = schedule::Place::Device, gradients = schedule::Place::Device,
                  parameters = schedule::Place::Device;
  int64_t shard = 0;              ///< ranks that keep a state replica together; 0: all data ranks
  int64_t recomputed = 0;         ///< blocks of each stage that are, where not all are
  int64_t prefetch = 0;           ///< buckets that stage 3 gathers ahead; 0: as the run says
  std::vector<int64_t> cut = {};  ///< first block of each stage but the first; empty: by cost

  bool offloads() const {
    return optimizer != schedule::Place::Device || gradients != schedule::Place::Device ||
           parameters != schedule::Place::Device;
  }
  int num_ranks() const { return pipeline * data * context * tensor; }
  /// Ranks that keep a stage's state together, or in several state replicas.
  int64_t state_ranks() const { return int64_t{data} * context; }
  int64_t global_batch() const { return rows * micro_batches * data; }
  BlockShare share() const { return {rows, tensor, context, sequence}; }
  /// Mesh of the first pipeline's last rank of the first rows, which has most where shares are
  /// uneven.
  schedule::Mesh mesh() const { return mesh(context * tensor - 1); }
  schedule::Mesh mesh(int rank) const;
  /// `base` with the options of this split.
  schedule::RunOptions options(schedule::RunOptions base) const;

  /// "2 pipeline x 4 data, 1f1b, zero 1, 8 x 4 rows": micro-batches of so many rows.
  std::string to_text() const;
  /// Kind of parallelism: "ddp", "zero 3", "pipeline x tensor x zero 1".
  std::string family() const;
  /// The options of a run, as lines of its TOML file below [train] and [parallel].
  std::string to_toml() const;
  /// The options of a run as --section.name=value.
  std::vector<std::string> to_flags() const;

  bool operator==(const Split&) const = default;
};

}  // namespace convoy::plan
