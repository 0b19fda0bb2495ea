#include "convoy/planner/devices/this_host.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "convoy/base/at_once.h"
#include "convoy/base/scratch_file.h"
#include "convoy/base/timing.h"
#include "convoy/comm/measure.h"
#include "convoy/comm/thread/thread_engine.h"
#include "convoy/machine/cores.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/optim/optimizer.h"
#include "convoy/optim/squares.h"
#include "convoy/parallel/offload/torch/offload.h"

namespace convoy::planner {

namespace {

constexpr double kMicro = 1e-6;
/// Bytes of a convoy process beside tensors: programs, libraries and their heaps.
constexpr int64_t kProcessBytes = 200LL << 20;

/// Number of times that an all-reduce moves the data over a rank's link.
double passes_of(int num_ranks) {
  return 2.0 * (num_ranks - 1) / num_ranks;
}

/// Link of a host's ranks, from the times of sums.
Link link_inside(const SumTimes& sums, int num_ranks) {
  return {sums.seconds, passes_of(num_ranks) / sums.seconds_per_byte};
}

/// Link between hosts, from the time that the links inside of hosts do not explain.
Link link_between(const Cluster& cluster, const SumTimes& sums) {
  const int ranks = cluster.devices_per_host;
  const double inside = ranks > 1 ? passes_of(ranks) / cluster.inside.bytes_per_second : 0;
  const double first = ranks > 1 ? cluster.inside.seconds : 0;
  return {std::max(0.0, sums.seconds - first),
          passes_of(cluster.num_hosts) / std::max(1e-15, sums.seconds_per_byte - inside)};
}

}  // namespace

void set_links(Cluster& cluster, const SumsOfHosts& sums) {
  if (cluster.devices_per_host > 1) {
    cluster.inside = link_inside(sums.inside, cluster.devices_per_host);
  }
  if (cluster.num_hosts > 1) cluster.between = link_between(cluster, sums.all);
}

SumTimes time_sums(const comm::Group& group, at::Device device) {
  constexpr int64_t kSmall = 64 << 10, kMiddle = 1 << 20, kLargest = 32 << 20;
  constexpr double kSecondsEach = 0.5;
  const auto time = [&](int64_t bytes) {
    return kMicro * comm::measure(group, "all_reduce", at::kFloat, bytes, device, kSecondsEach);
  };
  // Two sizes tell the line; on a slow link the second is not so large. All ranks measure the same.
  const double small = time(kSmall), middle = time(kMiddle);
  const bool is_slow = middle * (kLargest / kMiddle) > kSecondsEach;
  const int64_t bytes = is_slow ? kMiddle : kLargest;
  const double large = is_slow ? middle : time(kLargest);
  const double slope = std::max(1e-15, (large - small) / static_cast<double>(bytes - kSmall));
  return {std::max(0.0, small - slope * kSmall), slope};
}

SumsOfHosts time_sums(const job::Job& met, const job::MetRanks& ranks) {
  const auto device = met.devices.at(0);
  SumsOfHosts out{.num_hosts = met.environment.num_nodes};
  if (ranks.host.size() > 1) out.inside = out.all = time_sums(ranks.host, device);
  if (out.num_hosts > 1) out.all = time_sums(ranks.all, device);
  return out;
}

SumsOfHosts time_sums_of_threads(int num_ranks) {
  SumsOfHosts out;
  if (num_ranks == 1) return out;
  const auto groups = comm::make_thread_groups(num_ranks, std::chrono::seconds(100));
  at_once(num_ranks, [&](int rank) {
    const auto measured = time_sums(groups[static_cast<size_t>(rank)]);
    if (rank == 0) out.inside = out.all = measured;
  });
  return out;
}

Cluster processors(int num_ranks) {
  Cluster out;
  out.devices_per_host = num_ranks;
  out.device.name = "this processor";
  out.device.memory_bytes = machine::memory_limit().bytes / num_ranks;
  out.reserved_bytes = kProcessBytes;
  // An engine's thread takes the time of a core on which its rank computes.
  out.beside = machine::usable_cores() >= num_ranks * (at::get_num_threads() + 1) ? 1 : 0;
  return out;
}

Cluster hosts_like_this(int ranks_per_host, const SumsOfHosts& sums) {
  auto out = processors(ranks_per_host);
  out.num_hosts = sums.num_hosts;
  out.phases_overlap = sums.num_hosts == 1;  // one rank of a host carries what all of them sum up
  set_links(out, sums);
  return out;
}

double disk_bytes_per_second(const std::filesystem::path& folder, int num_ranks) {
  constexpr int64_t kPiece = 16 << 20, kPieces = 4;
  std::vector<std::unique_ptr<ScratchFile>> files;
  for (int rank = 0; rank < num_ranks; ++rank) {
    files.push_back(std::make_unique<ScratchFile>(folder, kPieces * kPiece, "offload_dir"));
  }
  const auto pass = [&](bool reads) {
    const auto began = std::chrono::steady_clock::now();
    at_once(num_ranks, [&](int rank) {
      auto& file = *files[static_cast<size_t>(rank)];
      const auto piece = [] {
        return parallel::aligned(
            at::zeros({kPiece + static_cast<int64_t>(ScratchFile::kAlignment)}, at::kByte), kPiece);
      };
      const auto in = piece(), out = piece();
      for (int64_t n = 0; n < kPieces; ++n) {
        auto written = file.write(static_cast<size_t>(n * kPiece), out.data_ptr(), kPiece);
        const auto next = static_cast<size_t>((n + 1) % kPieces * kPiece);
        if (reads) file.read(next, in.data_ptr(), kPiece).wait();
        written.wait();
      }
    });
    return seconds_since(began);
  };
  pass(/*reads=*/false);  // what was never written is read from nowhere
  return 2.0 * static_cast<double>(num_ranks * kPieces * kPiece) / pass(/*reads=*/true);
}

namespace {

/// Largest result of `measure` over so many ranks that run it at once.
double on_slowest(int num_ranks, const std::function<double()>& measure) {
  const int num_threads = at::get_num_threads();
  std::vector<double> seconds(static_cast<size_t>(num_ranks));
  at_once(num_ranks, [&](int rank) {
    at::set_num_threads(num_threads);
    seconds[static_cast<size_t>(rank)] = measure();
  });
  return *std::max_element(seconds.begin(), seconds.end());
}

}  // namespace

double seconds_of_update(const options::TrainingArguments& arguments, int num_ranks) {
  constexpr int64_t kElements = 8 << 20;
  constexpr int kRuns = 3;
  const auto optimizer = optim::make_optimizer(
      arguments.optim, {arguments.adam_beta1, arguments.adam_beta2, arguments.adam_epsilon});
  return on_slowest(num_ranks, [&] {
    optim::FlatRange stretch;
    stretch.weights = at::zeros({kElements}, at::kFloat);
    stretch.grads = at::ones({kElements}, at::kFloat);
    for (const auto& state : optimizer->states()) {
      stretch.states.push_back(at::zeros({kElements}, state.dtype));
    }
    if (arguments.bf16) stretch.rounded = at::zeros({kElements}, at::kBFloat16);
    const std::string name = "weight";
    stretch.spans.push_back({name, 0, 0, kElements});
    double best = 1e9;
    for (int run = 0; run < kRuns; ++run) {
      const auto began = std::chrono::steady_clock::now();
      optim::sum_of_squares(stretch.grads);
      optimizer->update(stretch, {.learning_rate = 1e-3, .step = run + 1});
      best = std::min(best, seconds_since(began));
    }
    return best / kElements;
  });
}

double seconds_of_accumulate(int num_ranks) {
  // Large enough that sums have left the caches, while the gradient that is added was just
  // computed.
  constexpr int64_t kElements = 1 << 20, kUnits = 16;
  constexpr int kRuns = 3;
  return on_slowest(num_ranks, [] {
    const auto one = at::ones({kElements}, at::kFloat);
    auto sums = at::zeros({kUnits, kElements}, at::kFloat);
    std::vector<double> runs;
    for (int run = 0; run < kRuns; ++run) {
      const auto began = std::chrono::steady_clock::now();
      for (int64_t unit = 0; unit < kUnits; ++unit) sums[unit].add_(one);
      runs.push_back(seconds_since(began));
    }
    return median(runs) / (kUnits * kElements);
  });
}

}  // namespace convoy::planner
