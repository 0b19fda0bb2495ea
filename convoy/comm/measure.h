#pragma once

#include <string>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::comm {

/// Names of what measure() knows: all_reduce, reduce_scatter, all_gather (both also in place: a
/// rank's part is where it lies in the whole), broadcast, all_to_all, send_receive (each rank sends
/// to the next).
const std::vector<std::string>& measurable_collectives();

/// Microseconds that one collective takes, the same on all ranks: tensors of `bytes` in memory of
/// each rank's own, one call after the other for about `seconds`, the median of five runs. `bytes`
/// counts the whole, as in bench::CollectiveTime. All ranks call this.
double measure(const Group& group, const std::string& collective, at::ScalarType dtype,
               int64_t bytes, at::Device device, double seconds);

/// Microseconds in which this thread alone copies `bytes` from one tensor to another.
double measure_copy(int64_t bytes, double seconds);

}  // namespace convoy::comm
