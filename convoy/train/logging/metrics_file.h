#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "convoy/train/callback.h"

namespace convoy::train {

/// Writes a run's progress as a file in Prometheus' text format, anew at its start and end and with
/// each log line, evaluation and checkpoint: what node_exporter's textfile collector reads. A
/// reader never sees a part of it. A file that cannot be written is told to `warn` once, and the
/// run goes on. Throws UsageError where its name does not end in .prom, or there is no folder for
/// it.
std::shared_ptr<Callback> make_metrics_file(const std::filesystem::path& file,
                                            std::function<void(const std::string&)> warn);

}  // namespace convoy::train
