#pragma once

#include <functional>
#include <memory>
#include <string>

#include "convoy/train/callback.h"

namespace convoy::train {

/// Writes `log.jsonl` in output.dir, an object a line, when there is such a folder. `warn` receives
/// a sentence when the disk does not take it.
std::shared_ptr<Callback> make_log_file(std::function<void(const std::string&)> warn);

}  // namespace convoy::train
