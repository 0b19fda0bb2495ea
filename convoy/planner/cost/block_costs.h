#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/dataset/batches.h"
#include "convoy/options/arguments.h"
#include "convoy/planner/cost/profile.h"
#include "convoy/planner/cost/usual_batches.h"
#include "convoy/planner/time/predict.h"

namespace convoy::planner {

/// Costs by block, of a rank's share of a micro-batch.
using MeasuredBlocks = std::map<BlockShare, std::vector<BlockCost>>;

/// Costs by block, of micro-batches of some rows.
struct UsualCosts {
  std::vector<BlockCost> longest;  ///< with times and messages of the mean one
  std::vector<BlockCost> mean;
};

/// Runs the blocks for the longest micro-batch and, where rows differ, for the mean one.
UsualCosts profile_usual(const parallel::ModelFactory& factory, const UsualBatches& batches,
                         int64_t rows, const ProfileOptions& options);

/// Rows of a micro-batch up to which its costs are always measured; larger ones are only where that
/// is fast.
inline constexpr int64_t kMeasuredRows = 8;

/// Powers of two from 1 up to `most`: rows of micro-batches to run.
std::vector<int64_t> sizes_to_run(int64_t most);

/// Choice of the micro-batches that are run for costs, and of how they are run.
struct MeasureOptions {
  std::vector<int64_t> sizes = {};  ///< rows of micro-batches, ascending; the data must have them
  /// Threads that run at once, so that times are those of ranks that share the host's memory;
  /// memory is counted with one thread. 0: only memory counts.
  int neighbours = 0;
  bool for_gpu = false;  ///< only memory counts, and scores are a GPU's
  /// Sizes above are run only where they are needed, smaller ones are fast, and the data has the
  /// rows.
  int64_t always = std::numeric_limits<int64_t>::max();
};

/// Costs of a model's blocks for any number of rows and any share of a micro-batch. The blocks run
/// on this host, forward and backward, for some numbers of rows; others are interpolated. If rows
/// differ in length, bytes are of the longest micro-batch and times of one of average length.
class BlockCosts {
 public:
  /// Runs micro-batches of the data when costs are asked for.
  BlockCosts(parallel::ModelFactory factory, options::TrainingArguments arguments,
             const dataset::Dataset& data, MeasureOptions measure);

  /// Costs of a profile. Throws UsageError where a share is asked for that it lacks; `file` is for
  /// messages.
  BlockCosts(MeasuredBlocks measured, std::string file, double spread);

  /// Adds a micro-batch size, in rows, to those that are measured from now on.
  void measure_also(int64_t rows);
  /// Whether the data has so many rows.
  bool has_rows(int64_t rows);

  /// Costs by block. Measures those that were not asked for before.
  std::vector<BlockCost> of(const BlockShare& share);
  /// Costs measured so far.
  const MeasuredBlocks& known() { return known_[0]; }
  /// Relative difference of times of the same work: half of their range, of their median.
  double spread() const { return median_seconds_ > 0 ? off_seconds_ / median_seconds_ : spread_; }

 private:
  /// `scores`: number of rows for which a GPU has scores; 0: they are the host's.
  const std::vector<BlockCost>& measured(const BlockShare& share, int64_t scores);
  /// Number of the sizes that are run for such a share.
  size_t num_sizes(const BlockShare& share, int64_t scores);
  bool may_run(const BlockShare& next, const BlockShare& last, int64_t scores);
  void run(const BlockShare& share, int64_t scores);
  /// Rows of scores that `share` has, or kAllScores where more rows take no more.
  int64_t scores_of(const BlockShare& share);
  void time_beside_neighbours(UsualCosts& costs, int64_t rows, ProfileOptions options);

  parallel::ModelFactory factory_;  // null: of a profile
  options::TrainingArguments arguments_;
  const dataset::Dataset* data_ = nullptr;
  MeasureOptions measure_{.neighbours = 1, .always = kMeasuredRows};
  std::optional<UsualBatches> batches_;
  std::string file_;
  std::map<int64_t, MeasuredBlocks> known_;        // by rows of a GPU's scores, 0 of the host's
  std::map<BlockShare, int64_t> all_scores_from_;  // rows from which scores take no more
  double median_seconds_ = 0, off_seconds_ = 0;    // over all that was timed
  double spread_ = 0;                              // of a profile
};

/// Largest number of ranks that may share out the positions of a row: each has two stretches. One
/// where rows hold several documents.
int64_t most_context_ranks(const parallel::MicroBatch& batch);

/// Throws UsageError where the model does not compute with such a share.
void check_share(const parallel::ModelDecl& model, const parallel::Parallelism& asked,
                 const parallel::StepFacts& facts, const BlockShare& share);

}  // namespace convoy::planner
