#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convoy/models/session/session.h"

// Shapes: B rows, T positions, D = d_model.
namespace convoy::models {

/// Predicts numbers of whole sessions (SessionConfig::targets) from one state of each: of the first
/// or the last item, the mean of all, or the state of cls behind them.
class SessionTargets {
 public:
  /// Declares `prediction_tasks.<column>.weight` [1, D] and `.bias` with `declare`.
  SessionTargets(const SessionConfig& config,
                 const std::function<nn::DenseParams(const std::string&)>& declare);

  /// Returns the name of a column in a bundle: answer() of one that is to be predicted,
  /// prediction() of what is predicted.
  static std::string answer(const std::string& column) { return "answer." + column; }
  static std::string prediction(const std::string& column) { return "prediction." + column; }

  /// Returns the positions [B] int64 of cls in rows of ids [B, T]. It stands behind the items, and
  /// in prediction behind the position that a body with masked items appends.
  static at::Tensor cls_places(const SessionConfig& config, const at::Tensor& ids, nn::Mode mode);

  /// Adds predictions from `states` [B, T, D] to `out`, except in training: probabilities or
  /// numbers [B]. Adds the losses to out["loss"] where the answers are asked for, each session's as
  /// often as `times` [B] says. A row without items has neither. A missed row (kMissed) has a
  /// prediction but no loss.
  void add(const nn::Bundle& in, const at::Tensor& states, const at::Tensor& times,
           const nn::Context& context, nn::Bundle& out) const;

 private:
  /// Returns one state [B, D] of each session of the bundle, by its `item_ids` and kUnknownTarget.
  at::Tensor summary(const at::Tensor& states, const nn::Bundle& in, nn::Mode mode) const;

  SessionConfig config_;
  std::vector<nn::DenseParams> heads_;
};

}  // namespace convoy::models
