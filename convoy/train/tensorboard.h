#pragma once

#include <filesystem>
#include <memory>

#include "convoy/train/callback.h"

namespace convoy::train {

/// Writes what a run logs and evaluates as TensorBoard events in `folder`, by Hugging Face's tags:
/// train/loss, train/learning_rate, eval/ndcg_at_10 and so on.
std::shared_ptr<Callback> make_tensorboard(std::filesystem::path folder);

}  // namespace convoy::train
