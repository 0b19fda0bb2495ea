#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convoy/tasks/preference/reference.h"
#include "convoy/train/trainer.h"

namespace convoy::tasks {

/// Makes the Trainer of another model that is the reference, on all ranks of the trained model's.
/// Adds notes on its weights.
using OpenReference = std::function<std::unique_ptr<train::Trainer>(
    const train::Trainer& trainer, std::vector<std::string>& notes)>;

/// Place of the reference's log-probabilities in a run, and the model that is the reference.
struct ReferencePlace {
  std::filesystem::path output;                ///< folder of the run; "" = they are kept nowhere
  std::vector<std::filesystem::path> resumed;  ///< folders of the run that this one goes on with
  std::string model;                           ///< name of the reference, for a person
  std::string weights;                         ///< text that tells its weights and its config
  std::string precision;                       ///< of the run
  ChatPadding padding;
  bool quiet = false;
  OpenReference open;  ///< empty: the reference is the model that the run begins with
};

/// Whether a run will compute the log-probabilities, for no run has kept what it needs.
bool will_compute(const ReferenceLogProbs& log_probs, const ReferencePlace& place);

/// Throws FileError and UsageError where this run goes on with one that has not kept them, or those
/// of another reference, or of other pairs.
void check_kept(const ReferenceLogProbs& log_probs, const ReferencePlace& place);

/// Gives `log_probs` their values: those that the run, or the run that it goes on with, has kept,
/// else those that the other model, or the weights of `trainer`, give now, which are then kept.
/// Called on all ranks once the weights are there. Throws as check_kept() in a resumed run.
void provide(ReferenceLogProbs& log_probs, const ReferencePlace& place, train::Trainer& trainer);

}  // namespace convoy::tasks
