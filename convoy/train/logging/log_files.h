#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "convoy/train/callback.h"

namespace convoy::train {

/// Writes `log.jsonl` in output.dir, an object a line, when there is such a folder: {"start": ...}
/// each time that the run starts, then what happens. `warn` receives
/// a sentence when the disk does not take it.
std::shared_ptr<Callback> make_log_file(std::function<void(const std::string&)> warn);

/// Writes what a run logs and evaluates as TensorBoard events in `folder`, by Hugging Face's tags:
/// train/loss, train/learning_rate, eval/loss and so on. `warn` receives a sentence when the
/// disk does not take them.
std::shared_ptr<Callback> make_tensorboard(std::filesystem::path folder,
                                           std::function<void(const std::string&)> warn);

}  // namespace convoy::train
