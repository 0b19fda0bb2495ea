#pragma once

#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/loop/streams.h"

namespace convoy::train {

/// Settings of a training that is about to begin, with warnings about what is allowed but hardly
/// meant. Collective.
RunInfo describe(const RunContext& run, const dataset::BatchStream& stream,
                 const Checkpoints& checkpoints, bool stopped_early);

}  // namespace convoy::train
