#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "convoy/train/callback.h"

namespace convoy::train {

/// Tells a reader in another process what a run does, an object a line: "begin", "step", "log",
/// "evaluate", "save", "message", "end", named by its "event". `pipe` is a FIFO with a reader. A
/// reader may be slow: 1 MiB waits for it, what comes on top is dropped, and the next line is
/// {"event": "dropped", "lines": n}. One that goes away is told to `warn`, and the run goes on.
/// Throws UsageError where there is no FIFO or no reader. SIGPIPE is ignored from then on.
std::shared_ptr<Callback> make_event_stream(const std::filesystem::path& pipe,
                                            std::function<void(const std::string&)> warn);

}  // namespace convoy::train
