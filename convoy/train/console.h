#pragma once

#include <memory>
#include <string>

#include "convoy/train/callback.h"

namespace convoy::train {

/// Prints a banner, a line per log record and the evaluations, and writes all of it as JSON lines
/// to `log.jsonl` in the output folder. `quiet`: the file only. Every Trainer has one.
std::shared_ptr<Callback> make_console(bool quiet);

/// "loss 6.1200  ndcg@10 0.0312 ..." for people.
std::string metrics_text(const Metrics& metrics);

}  // namespace convoy::train
