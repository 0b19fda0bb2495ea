#include "tests/fake_gpu/order.h"

#include <algorithm>
#include <map>

#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/pinned.h"

namespace convoy::fake_gpu {

namespace {

struct Line {
  c10::DeviceIndex device;
  c10::StreamId stream;
  Clock clock;
  uint64_t host_seen = 0;  // version of the host's clock that `clock` holds
};

struct Order {
  std::vector<Line> lines;
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, uint32_t> index;
  Clock host;
  uint64_t host_version = 0;
};

Order& all() {
  static auto* order = new Order;
  return *order;
}

Line& line(c10::Stream stream) {
  return all().lines[line_of(stream)];
}

/// The stream goes on after all that the host knows.
Line& up_to_date(c10::Stream stream) {
  auto& order = all();
  auto& out = line(stream);
  if (out.host_seen != order.host_version) {
    out.clock.join(order.host);
    out.host_seen = order.host_version;
  }
  return out;
}

}  // namespace

bool Clock::has(const Clock& other) const {
  for (uint32_t i = 0; i < other.times_.size(); ++i) {
    if (other.times_[i] > at(i)) return false;
  }
  return true;
}

void Clock::join(const Clock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
  for (size_t i = 0; i < other.times_.size(); ++i) {
    times_[i] = std::max(times_[i], other.times_[i]);
  }
}

Time Clock::tick(uint32_t line) {
  if (times_.size() <= line) times_.resize(line + 1);
  return ++times_[line];
}

uint32_t line_of(c10::Stream stream) {
  const Locked lock;
  auto& order = all();
  const auto [found, fresh] =
      order.index.try_emplace({stream.device_index(), stream.id()}, order.lines.size());
  if (fresh) order.lines.push_back({stream.device_index(), stream.id(), {}, 0});
  return found->second;
}

std::string name_of_line(uint32_t line) {
  const Locked lock;
  const auto& of = all().lines.at(line);
  return "cuda:" + std::to_string(of.device) + " stream " + std::to_string(of.stream);
}

Stamp launch(c10::Stream stream) {
  const Locked lock;
  const uint32_t index = line_of(stream);
  return {index, up_to_date(stream).clock.tick(index)};
}

bool is_before(Stamp stamp, uint32_t line) {
  const Locked lock;
  return stamp.line == line || all().lines.at(line).clock.has(stamp);
}

Clock reached(c10::Stream stream) {
  const Locked lock;
  return up_to_date(stream).clock;
}

Clock reached(c10::DeviceIndex device) {
  const Locked lock;
  Clock out;
  for (const auto& line : all().lines) {
    if (line.device == device) out.join(line.clock);
  }
  return out;
}

void stream_waits(c10::Stream stream, const Clock& clock) {
  const Locked lock;
  up_to_date(stream).clock.join(clock);
}

void host_waits(const Clock& clock) {
  const Locked lock;
  auto& order = all();
  if (!order.host.has(clock)) {
    order.host.join(clock);
    ++order.host_version;
  }
  settle_copies();
}

bool host_knows(Stamp stamp) {
  const Locked lock;
  return all().host.has(stamp);
}

bool host_knows(const Clock& clock) {
  const Locked lock;
  return all().host.has(clock);
}

}  // namespace convoy::fake_gpu
