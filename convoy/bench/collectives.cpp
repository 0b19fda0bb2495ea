#include "convoy/bench/collectives.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/comm/device.h"
#include "convoy/comm/measure.h"
#include "convoy/comm/rendezvous.h"
#include "convoy/comm/thread/thread_engine.h"
#include "convoy/job/job.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/supervise/temporary_folder.h"

namespace convoy::bench {

namespace {

namespace fs = std::filesystem;

struct NamedDtype {
  const char* name;
  at::ScalarType type;
};
constexpr NamedDtype kDtypes[] = {{"fp32", at::kFloat},
                                  {"fp16", at::kHalf},
                                  {"bf16", at::kBFloat16},
                                  {"int32", at::kInt},
                                  {"int64", at::kLong}};

at::ScalarType dtype_of(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& dtype : kDtypes) {
    if (name == dtype.name) return dtype.type;
    known.push_back(dtype.name);
  }
  fail<UsageError>("bench", "--dtypes names '{}'; expected some of {}", name, join(known));
}

/// Parses a size: "64M" is 67108864.
int64_t parse_size(const std::string& text) {
  int64_t scale = 1;
  std::string digits = text;
  const auto unit = std::string("KMG").find(text.empty() ? ' ' : text.back());
  if (unit != std::string::npos) {
    scale = int64_t{1} << (10 * (unit + 1));
    digits.pop_back();
  }
  int64_t number = 0;
  if (!parse_number(digits, number) || number < 1 || number > (int64_t{1} << 40) / scale) {
    fail<UsageError>("bench", "--sizes names '{}'; expected bytes such as 1024, 64K or 16M", text);
  }
  return number * scale;
}

/// Measures all requested collectives with one engine; `say` (may be empty) gets progress.
std::vector<CollectiveTime> measure_all(const comm::Group& group, const std::string& engine,
                                        const CollectivesOptions& options, at::Device device,
                                        const Say& say) {
  std::vector<CollectiveTime> out;
  for (const auto& collective : options.collectives) {
    for (const auto& dtype : options.dtypes) {
      for (const auto& size : options.sizes) {
        const int64_t bytes = parse_size(size);
        if (say) {
          say(fmt::format("{}, {} ranks: {} of {} {}", engine, group.size(), collective, size,
                          dtype));
        }
        const double time = comm::measure(group, collective, dtype_of(dtype), bytes, device,
                                          options.seconds_per_cell);
        out.push_back({engine, collective, dtype, bytes, group.size(), time});
      }
    }
  }
  return out;
}

void add(std::vector<CollectiveTime>& to, std::vector<CollectiveTime> more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::vector<CollectiveTime> measure_threads(const CollectivesOptions& options, int size,
                                            const Say& say) {
  const auto groups = comm::make_thread_groups(size, std::chrono::seconds(100));
  const auto devices = job::visible_devices(options.device);
  std::vector<CollectiveTime> times;
  std::vector<std::jthread> threads;
  const auto start = [&](int rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      const auto r = static_cast<size_t>(rank);
      const auto device = devices[r % devices.size()];
      comm::use_device(device);
      auto own = measure_all(groups[r], "threads", options, device, rank == 0 ? say : Say());
      if (rank == 0) times = std::move(own);
    });
  };
  try {
    for (int rank = 0; rank < size; ++rank) start(rank);
  } catch (...) {
    groups[0].abort("a rank could not start");
    throw;
  }
  for (auto& thread : threads) thread.join();
  return times;
}

}  // namespace

void CollectivesOptions::check() const {
  for (const auto& dtype : dtypes) dtype_of(dtype);
  for (const auto& size : sizes) {
    for (const auto& dtype : dtypes) {
      const auto width = static_cast<int64_t>(c10::elementSize(dtype_of(dtype)));
      if (parse_size(size) % width == 0) continue;
      fail<UsageError>("bench", "--sizes names {}; expected a multiple of {} bytes for {}", size,
                       width, dtype);
    }
  }
  for (const int count : ranks) {
    if (count < 2) fail<UsageError>("bench", "--ranks names {}; expected at least 2", count);
  }
}

std::vector<CollectiveTime> time_ranks(const CollectivesOptions& options, const Say& say) {
  options::ParallelArguments arguments;
  arguments.device = options.device;
  const auto job =
      job::plan_job(arguments, launch::detect_environment(), job::visible_devices(options.device));
  at::set_num_threads(job.threads);
  comm::use_device(job.devices[0]);
  const auto point = job::store_address(job, arguments);
  const auto store = comm::open_store(point);
  std::vector<CollectiveTime> times;
  for (const auto& engine : options.engines) {
    if (engine == "threads") continue;
    const auto keys = c10::make_intrusive<c10d::PrefixStore>("bench-" + engine, store);
    std::vector<int> ranks(static_cast<size_t>(point.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto group = comm::Connector(point, keys, engine, job.devices[0]).connect(ranks, "world");
    add(times, measure_all(group, engine, options, job.devices[0], job.is_main() ? say : Say()));
  }
  if (job.is_main()) say("");
  return times;
}

std::vector<CollectiveTime> time_host(const CollectivesOptions& options, const StartRanks& start,
                                      const Say& say) {
  std::vector<CollectiveTime> times;
  for (const auto& size : options.sizes) {
    const int64_t bytes = parse_size(size);
    times.push_back(
        {"memcpy", "copy", "bytes", bytes, 1, comm::measure_copy(bytes, options.seconds_per_cell)});
  }
  const launch::TemporaryFolder folder(unique_folder("convoy-bench"));
  const bool threads =
      std::find(options.engines.begin(), options.engines.end(), "threads") != options.engines.end();
  // A multi-process engine needs a group of its own for the ranks to meet; otherwise some would
  // leave before all have met.
  const bool processes = options.engines.size() > (threads ? 1 : 0);
  for (const int ranks : options.ranks) {
    if (processes) {
      const auto file = folder.path() / fmt::format("ranks-{}.json", ranks);
      if (const int code = start(ranks, file); code != 0) {
        fail<Error>("bench",
                    "measuring with {} ranks ended with exit code {}; its message stands above",
                    ranks, code);
      }
      add(times, collectives_from_json(Json::parse(read_file(file))));
    }
    if (!threads) continue;
    add(times, measure_threads(options, ranks, say));
    say("");
  }
  return times;
}

}  // namespace convoy::bench
