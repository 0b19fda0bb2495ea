#include "tests/fake_gpu/counters.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/options.h"

namespace convoy::fake_gpu {

namespace {

struct Counters {
  Counts total, pending;
  const Label* label = nullptr;
};

Counters& all() {
  static auto* counters = new Counters;
  return *counters;
}

bool at_exit_too() {
  static const int once = std::atexit([] { flush_counts(); });
  return once == 0;
}

}  // namespace

void Counts::add(const Counts& other) {
  launches += other.launches;
  beside += other.beside;
  waits += other.waits;
  blocking_copies += other.blocking_copies;
  to_device += other.to_device;
  to_device_bytes += other.to_device_bytes;
  to_host += other.to_host;
  to_host_bytes += other.to_host_bytes;
  segments += other.segments;
  operand_bytes += other.operand_bytes;
  collectives += other.collectives;
  meanwhile += other.meanwhile;
}

void count(const Counts& more) {
  const Locked lock;
  auto& counters = all();
  counters.total.add(more);
  if (options().counts.empty()) return;
  at_exit_too();
  const auto* label = current_label();
  if (label != counters.label) {
    flush_counts();
    counters.label = label;
  }
  counters.pending.add(more);
  if (more.waits > 0) flush_counts();  // the program may end without a word
}

void flush_counts() {
  const Locked lock;
  auto& counters = all();
  const auto& c = counters.pending;
  if (counters.label == nullptr || c.launches + c.waits + c.segments == 0) return;
  std::ostringstream line;
  line << ::getpid() << '\t' << counters.label->step << '\t' << c.launches << '\t' << c.beside
       << '\t' << c.waits << '\t' << c.blocking_copies << '\t' << c.to_device << '\t'
       << c.to_device_bytes << '\t' << c.to_host << '\t' << c.to_host_bytes << '\t' << c.segments
       << '\t' << c.operand_bytes << '\t' << c.collectives << '\t' << c.meanwhile << '\t'
       << counters.label->text << '\n';
  counters.pending = {};
  const auto text = line.str();
  const int fd = ::open(options().counts.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  [[maybe_unused]] const auto written = ::write(fd, text.data(), text.size());
  ::close(fd);
}

Counts total_counts() {
  const Locked lock;
  return all().total;
}

void reset_counts() {
  const Locked lock;
  all().total = {};
}

}  // namespace convoy::fake_gpu
