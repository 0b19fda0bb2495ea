#include "convoy/train/slow_ranks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "convoy/base/timing.h"

namespace convoy::train {

namespace {

constexpr int64_t kSteps = 20;   // between comparisons
constexpr double kSlow = 1.5;    // times the median
constexpr double kLeast = 0.01;  // seconds a step beyond the median: less is noise

/// Columns of a rank's line among those of all ranks.
enum Column { kWork, kDataWait, kCpu, kClock, kStolen, kFaults, kSwitches, kNumColumns };

HostCounters read_counters() {
  HostCounters out;
  out.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  out.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  out.faults = static_cast<double>(usage.ru_majflt);
  out.switches = static_cast<double>(usage.ru_nivcsw);
  // cpu user nice system idle iowait irq softirq steal ...
  std::ifstream stat("/proc/stat");
  std::string word;
  stat >> word;
  double ticks = 0;
  for (int column = 0; column < 8 && stat >> ticks; ++column) {
    out.ticks += ticks;
    if (column == 7) out.stolen = ticks;
  }
  return out;
}

/// Mean clock of the host's cores in MHz; 0 where the system does not tell it.
double clock_of_cores() {
  std::ifstream cpus("/proc/cpuinfo");
  double sum = 0;
  int cores = 0;
  for (std::string line; std::getline(cpus, line);) {
    if (!line.starts_with("cpu MHz")) continue;
    sum += std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    ++cores;
  }
  return cores == 0 ? 0 : sum / cores;
}

std::string ms(double seconds) {
  return fmt::format("{:.1f} ms", 1e3 * seconds);
}

/// The lower middle value: of two ranks the faster one.
double lower_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

}  // namespace

SlowRanks::SlowRanks(comm::Groups groups, std::vector<std::string> hosts)
    : groups_(std::move(groups)), hosts_(std::move(hosts)), before_(read_counters()) {}

std::vector<std::string> SlowRanks::after_step(const StepTiming& step) {
  if (groups_.world.size() == 1) return {};
  work_ += std::max(0.0, step.seconds - step.comm_wait);
  data_wait_ += step.data_wait;
  if (++steps_ < kSteps) return {};
  auto out = compare(step.step);
  steps_ = 0;
  work_ = data_wait_ = 0;
  return out;
}

std::vector<std::string> SlowRanks::compare(int64_t step) {
  const int ranks = groups_.world.size(), own = groups_.world.rank();
  const auto now = read_counters();
  auto all = at::zeros({ranks, kNumColumns}, at::kDouble);
  auto* mine = all.data_ptr<double>() + static_cast<int64_t>(own) * kNumColumns;
  const auto steps = static_cast<double>(steps_);
  const double wall = std::max(1e-9, now.wall_seconds - before_.wall_seconds);
  mine[kWork] = work_ / steps;
  mine[kDataWait] = data_wait_ / steps;
  mine[kCpu] = (now.cpu_seconds - before_.cpu_seconds) / wall;
  mine[kClock] = clock_of_cores();
  mine[kStolen] = 100 * (now.stolen - before_.stolen) / std::max(1.0, now.ticks - before_.ticks);
  mine[kFaults] = now.faults - before_.faults;
  mine[kSwitches] = now.switches - before_.switches;
  before_ = now;
  groups_.world.all_reduce(all, comm::ReduceOp::Sum, "compare the ranks' times");
  if (own != 0) return {};
  const auto of = [&](int rank, Column column) {
    return all.data_ptr<double>()[static_cast<int64_t>(rank) * kNumColumns + column];
  };
  std::vector<std::string> out;
  for (int rank = 0; rank < ranks; ++rank) {
    // Stages of a pipeline hold other blocks: they have times of their own.
    const int stage = groups_.mesh.of(rank).place(schedule::Axis::Pipeline);
    std::vector<double> works, clocks;
    for (int other = 0; other < ranks; ++other) {
      if (groups_.mesh.of(other).place(schedule::Axis::Pipeline) != stage) continue;
      works.push_back(of(other, kWork));
      clocks.push_back(of(other, kClock));
    }
    const double usual = lower_median(works), work = of(rank, kWork);
    if (work < kSlow * usual || work - usual < kLeast || !told_.insert(rank).second) continue;
    const auto place = static_cast<size_t>(rank);
    out.push_back(fmt::format(
        "rank {}{} takes {} a step without waits for other ranks, {:.1f} times the median of {} "
        "({} steps up to step {}). In them it waited {} a step for data, used {:.1f} cores, was "
        "put "
        "off its cores {:.0f} times and read pages from a disk {:.0f} times; its host lost {:.0f} "
        "percent of its cores' time to others (steal) and runs at {:.0f} MHz (median {:.0f})",
        rank, place < hosts_.size() ? " on " + hosts_[place] : "", ms(work), work / usual,
        ms(usual), steps_, step, ms(of(rank, kDataWait)), of(rank, kCpu), of(rank, kSwitches),
        of(rank, kFaults), of(rank, kStolen), of(rank, kClock), lower_median(clocks)));
  }
  return out;
}

}  // namespace convoy::train
