#pragma once

#include "convoy/comm/groups.h"
#include "convoy/parallel/buffers/flat_buffers.h"

namespace convoy::parallel {

/// Looks, between steps, whether ranks that keep the same have the same bits of it: weights,
/// masters and the optimizer's moments, as far as they are not shared out, along the data axes;
/// with tensor ranks what each of them has, and heads that several have; in a pipeline tables of
/// several stages. Collective. Throws NumericError on all ranks that names the parameter, two
/// ranks, and `step`, the last one done.
void check_replicas(const FlatBuffers& flat, const comm::Groups& groups, int64_t step);

}  // namespace convoy::parallel
