#pragma once

#include <cstdint>
#include <memory>

#include "convoy/train/callback.h"

namespace convoy::train {

/// Answers HTTP's GET /metrics at `port` of all addresses of this host with a run's progress in
/// Prometheus' text format, for as long as the callback lives. Throws UsageError where the port
/// cannot be had.
std::shared_ptr<Callback> make_metrics_server(int64_t port);

}  // namespace convoy::train
