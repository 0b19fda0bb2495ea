#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "convoy/comm/group.h"
#include "convoy/nn/block.h"
#include "convoy/parallel/buffers/types.h"

namespace convoy::train {

/// Name of a metric's standard error, behind its own: eval_accuracy_stderr.
inline constexpr const char* kStandardError = "_stderr";
/// Text between a baseline's name and its metric's: eval_chance_baseline_accuracy.
inline constexpr const char* kBaseline = "_baseline_";

/// Settings of an evaluation among its metrics. 1: items that a person has seen do not compete,
/// else 0.
inline constexpr const char* kExcludeSeen = "exclude_seen";
/// 1: asked for at the time of the target, which serving does not know; 0: at that of the last
/// event.
inline constexpr const char* kTargetTime = "target_time";

/// Whether a model may be judged by this metric: not by a standard error, a baseline or a setting.
bool judges_models(const std::string& name);

/// Metrics of an evaluation beside the loss: sums over the outputs of the model's last block on
/// each process, then over the processes.
class Scorer {
 public:
  virtual ~Scorer() = default;
  /// Adds the last block's output for a micro-batch; not called for one without rows.
  virtual void add(const nn::Bundle& out) = 0;
  /// Adds an output like add(), with the micro-batch, whose row i is sample first_sample +
  /// batch.samples[i].
  virtual void add_batch(const parallel::MicroBatch& /*batch*/, int64_t /*first_sample*/,
                         const nn::Bundle& out) {
    add(out);
  }
  /// Adds up over the processes; called once on each, after its last add().
  virtual void reduce(const comm::Group& group) = 0;
  /// Whether rows count as misses though no target of theirs has a loss: all may be such, and the
  /// loss is then no number. After reduce().
  virtual bool has_rows() const { return false; }
  /// Metrics, named with `prefix` ("eval_"); `loss` is the mean over all targets.
  virtual std::map<std::string, double> values(const std::string& prefix, double loss) const = 0;
  /// Why a metric, named without prefix, may be no number, as "no row counts for ..."; "": unknown.
  virtual std::string reason_of_none(const std::string& /*metric*/) const { return ""; }
  /// Whether a greater value of a metric, named without prefix, is a better one: for the best model
  /// and early stopping. Nothing: its name tells
  /// (base/metric_direction.h).
  virtual std::optional<bool> greater_is_better(const std::string& /*metric*/) const {
    return std::nullopt;
  }
};

/// A metric's name as evaluations have it, without "eval_" and with "_at_" for "@".
std::string plain_metric(std::string name);

/// Makes the scorer of one evaluation; an empty one means that the loss says all.
using MakeScorer = std::function<std::unique_ptr<Scorer>()>;

/// Throws UsageError when metric_for_best_model is neither `loss` nor a metric of such a scorer.
void check_best_metric(const std::string& metric, const MakeScorer& make_scorer);

}  // namespace convoy::train
