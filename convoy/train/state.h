#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "convoy/base/json.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/optim/loss_scale.h"

namespace convoy::train {

/// Progress of a run: `trainer_state.json`, by Hugging Face's keys, with everything that exact
/// resuming needs.
struct TrainerState {
  int64_t global_step = 0;
  int64_t max_steps = 0;
  double num_train_epochs = 0;
  int64_t epoch_index = 0;     ///< the epoch under way
  int64_t epoch_position = 0;  ///< its next sample
  int64_t num_rows = 0;        ///< of the training data
  int64_t step_samples = 0;    ///< of a full step over all ranks
  /// Steps done here beyond those that these epochs would have had with `step_samples` throughout.
  int64_t steps_beyond = 0;
  uint64_t data_seed = 0;
  std::string data_order;       ///< options that the order of an epoch's samples depends on
  std::string encoding;         ///< ModelFiles::encoding; "" = none, or an older state
  std::string optimizer;        ///< optim::Optimizer::name() of the state in the checkpoint
  std::string job_id;           ///< of the job that saved it; "" = its launcher told none
  checkpoint::Lineage lineage;  ///< the branches of the run that led here
  /// Position at which an epoch's last step begins; whole row groups of unequal ranks leave
  /// holes, and it may lie beyond `num_rows`.
  int64_t last_step_position = 0;
  // Sums over the steps since the last log line and since the start.
  double logged_loss_sum = 0;
  std::map<std::string, double> logged_metrics;  ///< of what the model tells beside the loss
  int64_t logged_steps = 0;
  double last_grad_norm = NAN;  ///< of the last step; NaN = none yet, or an older state
  double total_loss_sum = 0;
  uint64_t rows_sum = 0;  ///< see sum_of_rows(); 0 in states from before it
  /// See sum_of_first_rows() and sum_of_base(); 0 and "" in states from before them.
  uint64_t first_rows_sum = 0;
  std::string base_sum;
  // The loss scale of fp16, and the steps that an overflow made it skip.
  optim::LossScale loss_scale;
  int64_t skipped_steps = 0;
  int64_t steps_without_targets = 0;  ///< that taught nothing, and count in no mean
  // The best evaluation so far: which metric, its value, its step (-1 = none yet), its checkpoint
  // if one was saved (by its name in output.dir, or the whole path of one in another run), and the
  // evaluations since.
  std::string best_metric_name;
  double best_metric = 0;
  std::string best_model_checkpoint;
  int64_t best_step = -1;
  int64_t evaluations_without_better = 0;
  bool evaluation_owed = false;  ///< due when a signal stopped the run
  /// Time of the steps that led here, of those that the job `job_id` made: over all its starts,
  /// without steps that were lost and made again, evaluations and saves.
  double useful_seconds = 0;
  /// Beginning of this training by that job, in seconds since 1970; 0: no launcher told the job's.
  double job_began = 0;
  double save_seconds = 0;  ///< that the last checkpoint took to write; 0: none, or an older state
  /// Rows of a micro-batch that auto_find_batch_size chose for the job; 0: it was not asked to.
  int64_t micro_batch_rows = 0;
  Json log_history = Json::array();

  /// Updates of the earlier runs whose moments this one began with (Trainer::load_moments).
  int64_t earlier_updates = 0;

  int64_t updates() const { return global_step - skipped_steps; }
  /// Steps whose losses `total_loss_sum` adds up.
  int64_t counted_steps() const { return updates() - steps_without_targets; }
  /// Epochs done, as a fraction.
  double epoch() const {
    return num_rows > 0 ? static_cast<double>(epoch_index) +
                              static_cast<double>(epoch_position) / static_cast<double>(num_rows)
                        : 0;
  }

  Json to_json() const;
  static TrainerState from_json(const Json& json, const std::string& where);
};

/// Whether the log lines and evaluations of `history` begin with those of `beginning`. The times in
/// them do not count.
bool begins_with(const Json& history, const Json& beginning);

}  // namespace convoy::train
