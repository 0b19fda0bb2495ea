#include "convoy/train/slow_ranks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "convoy/base/timing.h"

namespace convoy::train {

namespace {

constexpr int64_t kSteps = 20;   // between comparisons
constexpr double kSlow = 1.5;    // times the median
constexpr double kLeast = 0.01;  // seconds a step beyond the median: less is noise

/// Columns of the numbers that a rank reports where one is slow.
enum Column {
  kDataWait,
  kCpu,
  kClock,
  kStolen,
  kIdleForDisk,
  kDisk,
  kFaults,
  kSwitches,
  kNumColumns
};

/// Time that the threads of this process waited for disks.
double disk_seconds() {
  constexpr int kDelays = 42;  // field of proc(5), from 1: delayacct_blkio_ticks
  double ticks = 0;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream in(thread.path() / "stat");
    std::string line;
    if (!std::getline(in, line) || line.rfind(')') == std::string::npos) continue;
    std::istringstream fields(line.substr(line.rfind(')') + 1));  // after the name: from 3
    std::string field;
    for (int n = 3; n <= kDelays && fields >> field; ++n) {
      if (n == kDelays) ticks += std::strtod(field.c_str(), nullptr);
    }
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

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
    if (column == 4) out.idle_for_disk = ticks;
    if (column == 7) out.stolen = ticks;
  }
  out.disk_seconds = disk_seconds();
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

/// Returns the lower middle value: of two ranks the faster one.
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

std::vector<int> SlowRanks::peers_of(int rank) const {
  // Stages of a pipeline hold other blocks: they have times of their own.
  const auto stage_of = [&](int of) { return groups_.mesh.of(of).place(parallel::Axis::Pipeline); };
  std::vector<int> out;
  for (int other = 0; other < groups_.world.size(); ++other) {
    if (stage_of(other) == stage_of(rank)) out.push_back(other);
  }
  return out;
}

std::vector<std::string> SlowRanks::compare(int64_t step) {
  const int ranks = groups_.world.size(), own = groups_.world.rank();
  const auto steps = static_cast<double>(steps_);
  const auto before = std::exchange(before_, read_counters());
  auto works = at::zeros({ranks}, at::kDouble);
  works.data_ptr<double>()[own] = work_ / steps;
  groups_.world.all_reduce(works, comm::ReduceOp::Sum, "compare the ranks' times");
  const auto work_of = [&](int rank) { return works.data_ptr<double>()[rank]; };
  const auto usual_of = [&](int rank) {
    std::vector<double> of_peers;
    for (const int peer : peers_of(rank)) of_peers.push_back(work_of(peer));
    return lower_median(std::move(of_peers));
  };
  std::vector<int> slow;  // the same on all ranks
  for (int rank = 0; rank < ranks; ++rank) {
    const double usual = usual_of(rank), work = work_of(rank);
    if (work < kSlow * usual || work - usual < kLeast || !told_.insert(rank).second) continue;
    slow.push_back(rank);
  }
  if (slow.empty()) return {};

  auto all = at::zeros({ranks, kNumColumns}, at::kDouble);
  auto* mine = all.data_ptr<double>() + static_cast<int64_t>(own) * kNumColumns;
  const double wall = std::max(1e-9, before_.wall_seconds - before.wall_seconds);
  mine[kDataWait] = data_wait_ / steps;
  mine[kCpu] = (before_.cpu_seconds - before.cpu_seconds) / wall;
  mine[kClock] = clock_of_cores();
  const double ticks = std::max(1.0, before_.ticks - before.ticks);
  mine[kStolen] = 100 * (before_.stolen - before.stolen) / ticks;
  mine[kIdleForDisk] = 100 * (before_.idle_for_disk - before.idle_for_disk) / ticks;
  mine[kDisk] = (before_.disk_seconds - before.disk_seconds) / steps;
  mine[kFaults] = before_.faults - before.faults;
  mine[kSwitches] = before_.switches - before.switches;
  groups_.world.all_reduce(all, comm::ReduceOp::Sum, "tell why a rank is slow");
  if (own != 0) return {};
  const auto of = [&](int rank, Column column) {
    return all.data_ptr<double>()[static_cast<int64_t>(rank) * kNumColumns + column];
  };
  std::vector<std::string> out;
  for (const int rank : slow) {
    std::vector<double> clocks;
    for (const int peer : peers_of(rank)) clocks.push_back(of(peer, kClock));
    const double usual = usual_of(rank), work = work_of(rank);
    const auto place = static_cast<size_t>(rank);
    out.push_back(fmt::format(
        "rank {}{} takes {} a step without waits for other ranks, {:.1f} times the median of {} "
        "({} steps up to step {}). In them it waited {} a step for data and {} for disks, used "
        "{:.1f} cores, was put off its cores {:.0f} times and read pages from a disk {:.0f} times; "
        "its host lost {:.0f} percent of its cores' time to others (steal) and {:.0f} percent to "
        "disks (iowait), and runs at {:.0f} MHz (median {:.0f})",
        rank, place < hosts_.size() ? " on " + hosts_[place] : "", ms(work), work / usual,
        ms(usual), steps_, step, ms(of(rank, kDataWait)), ms(of(rank, kDisk)), of(rank, kCpu),
        of(rank, kSwitches), of(rank, kFaults), of(rank, kStolen), of(rank, kIdleForDisk),
        of(rank, kClock), lower_median(clocks)));
  }
  return out;
}

}  // namespace convoy::train
