#include "tests/fake_gpu/report.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/options.h"

namespace convoy::fake_gpu {

namespace {

struct Misuses {
  long count = 0;
  std::string first;
};

Misuses& all() {
  static auto* misuses = new Misuses;
  return *misuses;
}

void tell(int fd, const std::string& line) {
  [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
}

}  // namespace

void misused_quietly(const std::string& what) noexcept {
  constexpr long kMostTold = 50;
  const Locked lock;
  auto& misuses = all();
  if (misuses.count++ == 0) misuses.first = what;
  const auto line = "[fake_gpu] " + what + "\n";
  if (misuses.count <= kMostTold) tell(STDERR_FILENO, line);
  if (options().report.empty()) return;
  const int fd = ::open(options().report.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  tell(fd, line);
  ::close(fd);
}

void misused(const std::string& what) {
  misused_quietly(what);
  TORCH_CHECK(options().only_counts, "[fake_gpu] ", what);
}

long num_misuses() {
  const Locked lock;
  return all().count;
}

std::string first_misuse() {
  const Locked lock;
  return all().first;
}

void forget_misuses() {
  const Locked lock;
  all() = {};
}

}  // namespace convoy::fake_gpu
