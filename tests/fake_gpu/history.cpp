#include "tests/fake_gpu/history.h"

#include <map>
#include <vector>

#include "tests/fake_gpu/device_lock.h"

namespace convoy::fake_gpu {

namespace {

/// Bytes that had the same uses: its last writer, if time is not 0, and who read since.
struct Stretch {
  uintptr_t end = 0;
  Access write;
  std::vector<Access> reads;
};

using Stretches = std::map<uintptr_t, Stretch>;

Stretches& all() {
  static auto* stretches = new Stretches;
  return *stretches;
}

/// The first stretch that begins at `at` or later; one that goes over `at` is cut there.
Stretches::iterator cut(uintptr_t at) {
  auto& stretches = all();
  const auto next = stretches.lower_bound(at);
  if (next == stretches.begin()) return next;
  const auto before = std::prev(next);
  if (before->second.end <= at) return next;
  Stretch rest = before->second;
  before->second.end = at;
  return stretches.emplace_hint(next, at, std::move(rest));
}

std::optional<Conflict> conflict(const Stretch& stretch, Range range, bool writes,
                                 const Access& access) {
  const uint32_t line = access.stamp.line;
  if (stretch.write.stamp.time > 0 && !is_before(stretch.write.stamp, line)) {
    return Conflict{stretch.write, true, range};
  }
  if (!writes) return std::nullopt;
  for (const auto& read : stretch.reads) {
    if (!is_before(read.stamp, line)) return Conflict{read, false, range};
  }
  return std::nullopt;
}

/// A reader that is done before this one cannot be the last.
void add_reader(Stretch& stretch, const Access& access) {
  std::erase_if(stretch.reads,
                [&](const Access& read) { return is_before(read.stamp, access.stamp.line); });
  stretch.reads.push_back(access);
}

}  // namespace

std::optional<Conflict> touch(Range range, bool writes, const Access& access) {
  const Locked lock;
  if (range.empty()) return std::nullopt;
  auto& stretches = all();
  std::optional<Conflict> found;
  auto at = cut(range.begin);
  const auto end = cut(range.end);
  // Cutting at the end may have made the stretch that `at` should be.
  at = stretches.lower_bound(range.begin);
  const auto first = at;
  uintptr_t covered = range.begin;
  for (; at != end; ++at) {
    if (!found) found = conflict(at->second, {at->first, at->second.end}, writes, access);
    if (writes) continue;
    if (covered < at->first) {
      stretches.emplace_hint(at, covered, Stretch{at->first, {}, {access}});
    }
    covered = at->second.end;
    add_reader(at->second, access);
  }
  if (writes) {
    stretches.erase(first, end);
    stretches.emplace_hint(end, range.begin, Stretch{range.end, access, {}});
  } else if (covered < range.end) {
    stretches.emplace_hint(end, covered, Stretch{range.end, {}, {access}});
  }
  return found;
}

std::optional<Conflict> look(Range range, bool writes, const Access& access) {
  const Locked lock;
  if (range.empty()) return std::nullopt;
  cut(range.begin);
  const auto end = cut(range.end);
  for (auto at = all().lower_bound(range.begin); at != end; ++at) {
    if (auto found = conflict(at->second, {at->first, at->second.end}, writes, access)) {
      return found;
    }
  }
  return std::nullopt;
}

std::optional<Access> unknown_to_host(Range range) {
  const Locked lock;
  if (range.empty()) return std::nullopt;
  cut(range.begin);
  const auto end = cut(range.end);
  for (auto at = all().lower_bound(range.begin); at != end; ++at) {
    const auto& stretch = at->second;
    if (stretch.write.stamp.time > 0 && !host_knows(stretch.write.stamp)) return stretch.write;
    for (const auto& read : stretch.reads) {
      if (!host_knows(read.stamp)) return read;
    }
  }
  return std::nullopt;
}

void forget(Range range) {
  const Locked lock;
  if (range.empty()) return;
  cut(range.begin);
  const auto end = cut(range.end);
  all().erase(all().lower_bound(range.begin), end);
}

}  // namespace convoy::fake_gpu
