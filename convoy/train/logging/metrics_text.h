#pragma once

#include <functional>
#include <memory>
#include <string>

#include "convoy/train/callback.h"

namespace convoy::train {

/// Receives a run's progress in Prometheus' text format.
using PublishMetrics = std::function<void(const std::string& text)>;

/// Tells `publish` a run's progress, anew at its start and end, however that comes, and with each
/// log line, evaluation and checkpoint.
std::shared_ptr<Callback> make_metrics_text(PublishMetrics publish);

}  // namespace convoy::train
