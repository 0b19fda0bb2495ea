#pragma once

#include <memory>
#include <string>

#include "convoy/train/callback.h"

namespace convoy::train {

/// Prints a banner, a line per log record and the evaluations. `quiet`: errors and warnings only.
/// Every Trainer has one.
std::shared_ptr<Callback> make_console(bool quiet);

/// "loss 6.1200  accuracy 0.3120 ..." for people; of metrics with several cut-offs those at 10, or
/// at the least.
std::string metrics_text(const Metrics& metrics);

}  // namespace convoy::train
