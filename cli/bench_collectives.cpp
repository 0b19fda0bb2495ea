#include <ATen/Parallel.h>
#include <torch/version.h>

#include <cstdio>
#include <filesystem>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "cli/bench.h"
#include "cli/ranks.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/comm/connect.h"
#include "convoy/comm/device.h"
#include "convoy/comm/measure.h"
#include "convoy/comm/thread/thread_engine.h"
#include "convoy/launch/environment.h"
#include "convoy/machine/cores.h"
#include "convoy/machine/host.h"
#include "convoy/report/collectives.h"
#include "convoy/report/live_line.h"
#include "convoy/train/job.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;
using report::CollectiveTime;

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
  fail<UsageError>("cli", "--dtypes names '{}'; expected some of {}", name, join(known));
}

/// "64M" as 67108864.
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
    fail<UsageError>("cli", "--sizes names '{}'; expected bytes such as 1024, 64K or 16M", text);
  }
  return number * scale;
}

/// Measures all that was asked for with one engine; `line` (or null) says what is under way.
std::vector<CollectiveTime> measure_all(const comm::Group& group, const std::string& engine,
                                        const CollectivesBench& options, at::Device device,
                                        report::LiveLine* line) {
  std::vector<CollectiveTime> out;
  for (const auto& collective : options.collectives) {
    for (const auto& dtype : options.dtypes) {
      for (const auto& size : options.sizes) {
        const int64_t bytes = parse_size(size);
        if (line != nullptr) {
          line->show(fmt::format("{}, {} ranks: {} of {} {}", engine, group.size(), collective,
                                 size, dtype));
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

/// What processes can do; this one is a rank.
std::vector<CollectiveTime> measure_processes(const CollectivesBench& options) {
  train::ParallelArguments arguments;
  arguments.device = options.device;
  const auto job = train::plan_job(arguments, launch::detect_environment(),
                                   train::visible_devices(options.device));
  at::set_num_threads(job.threads);
  comm::use_device(job.devices[0]);
  const auto point = train::meeting_point(job, arguments);
  const auto store = comm::open_store(point);
  report::LiveLine line(stderr);
  std::vector<CollectiveTime> times;
  for (const auto& engine : options.engines) {
    if (engine == "threads") continue;
    const auto keys = c10::make_intrusive<c10d::PrefixStore>("bench-" + engine, store);
    std::vector<int> ranks(static_cast<size_t>(point.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto group = comm::Connector(point, keys, engine, job.devices[0]).connect(ranks, "world");
    add(times,
        measure_all(group, engine, options, job.devices[0], job.is_main() ? &line : nullptr));
  }
  return times;
}

std::vector<CollectiveTime> measure_threads(const CollectivesBench& options, int size) {
  const auto groups = comm::make_thread_groups(size, std::chrono::seconds(100));
  const auto devices = train::visible_devices(options.device);
  report::LiveLine line(stderr);
  std::vector<CollectiveTime> times;
  std::vector<std::jthread> threads;
  const auto start = [&](int rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      const auto r = static_cast<size_t>(rank);
      const auto device = devices[r % devices.size()];
      comm::use_device(device);
      auto own = measure_all(groups[r], "threads", options, device, rank == 0 ? &line : nullptr);
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

/// Starts this program again as `ranks` ranks.
std::vector<CollectiveTime> measure_in_ranks(int ranks, const fs::path& folder) {
  const auto file = folder / fmt::format("ranks-{}.json", ranks);
  const int code = launch_again(ranks, {"--results", file.string()});
  if (code != 0) {
    fail<Error>("cli", "measuring with {} ranks ended with exit code {}; its message stands above",
                ranks, code);
  }
  return report::collectives_from_json(Json::parse(read_file(file)));
}

void show(const CollectivesBench& options, const std::vector<CollectiveTime>& times) {
  const auto lines = machine::machine_lines(machine::read_host(), machine::usable_cores(),
                                            {{"torch", TORCH_VERSION}});
  if (options.json) {
    fmt::print("{}\n", report::collectives_json(times).dump(2));
  } else {
    for (const auto& line : lines) fmt::print("{}\n", line);
    fmt::print("\n{}", report::collectives_text(times));
  }
  if (options.output.empty()) return;
  const fs::path folder = options.output;
  write_file(folder / "collectives.json", report::collectives_json(times).dump(2) + "\n");
  write_file(folder / "collectives_fit.json",
             report::fits_json(report::fit_collectives(times)).dump(2) + "\n");
  write_file(folder / "collectives.svg",
             report::collectives_svg(times, "Collectives by size and engine",
                                     lines.empty() ? "" : lines.front()));
  fmt::print(stderr,
             "wrote {0}/collectives.json, {0}/collectives_fit.json and {0}/collectives.svg\n",
             folder.string());
}

}  // namespace

int bench_collectives(const CollectivesBench& options) {
  for (const auto& dtype : options.dtypes) dtype_of(dtype);
  for (const auto& size : options.sizes) parse_size(size);
  for (const int ranks : options.ranks) {
    if (ranks < 2) fail<UsageError>("cli", "--ranks names {}; expected at least 2", ranks);
  }
  const auto environment = launch::detect_environment();
  if (environment.launched() && environment.world_size > 1) {
    const auto times = measure_processes(options);
    if (environment.rank != 0) return 0;
    if (options.results.empty()) {
      show(options, times);
    } else {
      write_file(options.results, report::collectives_json(times).dump());
    }
    return 0;
  }
  std::vector<CollectiveTime> times;
  for (const auto& size : options.sizes) {
    const int64_t bytes = parse_size(size);
    times.push_back(
        {"memcpy", "copy", "bytes", bytes, 1, comm::measure_copy(bytes, options.seconds_per_cell)});
  }
  const auto folder = unique_folder("convoy-bench");
  const bool threads =
      std::find(options.engines.begin(), options.engines.end(), "threads") != options.engines.end();
  for (const int ranks : options.ranks) {
    add(times, measure_in_ranks(ranks, folder));
    if (threads) add(times, measure_threads(options, ranks));
  }
  fs::remove_all(folder);
  show(options, times);
  return 0;
}

}  // namespace convoy::cli
