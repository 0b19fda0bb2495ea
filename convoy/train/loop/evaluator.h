#pragma once

#include <map>
#include <optional>
#include <string>

#include "convoy/train/loop/stop_signal.h"
#include "convoy/train/loop/streams.h"
#include "convoy/train/scorer.h"
#include "convoy/train/trainer.h"

namespace convoy::train {

/// Runs a model over data without training it. All ranks call its functions together.
class Evaluator {
 public:
  /// Keeps references: both arguments must outlive this object.
  Evaluator(const RunContext& run, StopSignal& stop) : run_(run), stop_(stop) {}

  void set_scorer(MakeScorer make_scorer) { make_scorer_ = std::move(make_scorer); }
  const MakeScorer& make_scorer() const { return make_scorer_; }

  /// Loss, what the scorer adds, runtime and rates, named with `prefix`. Nothing where a signal
  /// ended it, which StopSignal::ended_by then is. Throws NumericError where the loss is not
  /// finite, UsageError where no row has a target.
  std::optional<Metrics> evaluate(const dataset::Dataset& data, const std::string& prefix) const;

  /// Runs the model as Trainer::predict() does.
  void predict(const dataset::Dataset& data, const Trainer::UsePrediction& use, int64_t most,
               nn::Mode mode) const;

 private:
  void check_finite(const comm::Group& group, const double* not_finite, double loss) const;
  void tell_not_finite(const Metrics& metrics, const std::string& prefix, const Scorer* scorer,
                       bool has_targets) const;

  const RunContext& run_;
  StopSignal& stop_;
  MakeScorer make_scorer_;
};

}  // namespace convoy::train
