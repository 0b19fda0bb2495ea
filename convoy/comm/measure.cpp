#include "convoy/comm/measure.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"

namespace convoy::comm {

namespace {

constexpr int kRuns = 5;
constexpr const char* kInPlace = "_in_place";

using Clock = std::chrono::steady_clock;

template <class Work>
double seconds_of(int64_t times, at::Device device, const Work& work) {
  synchronize(device);
  const auto start = Clock::now();
  for (int64_t i = 0; i < times; ++i) work();
  synchronize(device);
  return seconds_since(start);
}

/// Returns one call of a collective on tensors that were made before.
std::function<void()> prepare(const Group& group, const std::string& collective,
                              const at::TensorOptions& options, int64_t count) {
  const auto& known = measurable_collectives();
  if (std::find(known.begin(), known.end(), collective) == known.end()) {
    fail<UsageError>("comm", "there is no collective '{}'; expected one of {}", collective,
                     join(known));
  }
  const int64_t size = group.size();
  const int64_t part = std::max<int64_t>(1, count / size);
  if (collective == "all_reduce" || collective == "broadcast") {
    auto tensor = at::zeros({count}, options);
    if (collective == "broadcast") return [=] { group.broadcast(tensor, 0, "broadcast"); };
    return [=] { group.all_reduce(tensor, ReduceOp::Sum, "all_reduce"); };
  }
  if (collective == "send_receive") {
    auto out = at::zeros({count}, options), in = at::zeros({count}, options);
    const int next = static_cast<int>((group.rank() + 1) % size);
    const int before = static_cast<int>((group.rank() + size - 1) % size);
    return [=] { group.start_send_receive(out, next, in, before, "send").wait(); };
  }
  auto whole = at::zeros({part * size}, options);
  if (collective == "all_to_all") {
    auto out = at::zeros_like(whole);
    return [=] { group.all_to_all(out, whole, "all_to_all"); };
  }
  const bool in_place = collective.ends_with(kInPlace);
  auto own = in_place ? whole.narrow(0, group.rank() * part, part) : at::zeros({part}, options);
  if (collective.starts_with("reduce_scatter")) {
    return [=] { group.reduce_scatter(own, whole, ReduceOp::Sum, "reduce_scatter"); };
  }
  return [=] { group.all_gather(whole, own, "all_gather"); };
}

}  // namespace

const std::vector<std::string>& measurable_collectives() {
  static const std::vector<std::string> names{
      "all_reduce", "reduce_scatter",      "reduce_scatter_in_place",
      "all_gather", "all_gather_in_place", "broadcast",
      "all_to_all", "send_receive"};
  return names;
}

double measure(const Group& group, const std::string& collective, at::ScalarType dtype,
               int64_t bytes, at::Device device, double seconds) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const int64_t count = bytes / static_cast<int64_t>(c10::elementSize(dtype));
  const auto call = prepare(group, collective, options, std::max<int64_t>(1, count));
  call();
  // All ranks must agree on the number of calls.
  auto times = at::zeros({1}, at::kLong);
  const double once = seconds_of(3, device, call) / 3;
  times[0] = std::clamp<int64_t>(static_cast<int64_t>(seconds / kRuns / once), 1, 100000);
  group.broadcast(times, 0, "number of calls");
  const auto number = comm::item<int64_t>(times);
  std::vector<double> runs;
  for (int run = 0; run < kRuns; ++run) {
    group.barrier("begin");
    runs.push_back(seconds_of(number, device, call) / static_cast<double>(number));
  }
  auto result = at::full({1}, median(runs) * 1e6, at::kDouble);
  group.all_reduce(result, ReduceOp::Max, "slowest rank");
  return comm::item<double>(result);
}

double measure_copy(int64_t bytes, double seconds) {
  auto from = at::ones({bytes}, at::kByte), to = at::zeros({bytes}, at::kByte);
  const auto call = [&] {
    std::memcpy(to.data_ptr(), from.data_ptr(), static_cast<size_t>(bytes));
  };
  const double once = seconds_of(1, at::kCPU, call);
  const auto number = std::clamp<int64_t>(static_cast<int64_t>(seconds / kRuns / once), 1, 100000);
  std::vector<double> runs;
  for (int run = 0; run < kRuns; ++run) {
    runs.push_back(seconds_of(number, at::kCPU, call) / static_cast<double>(number));
  }
  return median(runs) * 1e6;
}

}  // namespace convoy::comm
