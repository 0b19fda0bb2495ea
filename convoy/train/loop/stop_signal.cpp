#include "convoy/train/loop/stop_signal.h"

#include <ATen/ATen.h>

#include "convoy/comm/to_host.h"

namespace convoy::train {

int StopSignal::of_any_rank(const comm::Group& group) const {
  auto signal = at::full({1}, source_ != nullptr ? source_->load() : 0, at::kLong);
  group.all_reduce(signal, comm::ReduceOp::Max, "look for a stop signal");
  return static_cast<int>(comm::item<int64_t>(signal));
}

}  // namespace convoy::train
