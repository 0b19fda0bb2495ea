#include "convoy/report/traced_collectives.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "convoy/base/text.h"

namespace convoy::report {

namespace {

constexpr int64_t kKiB = 1024;
constexpr std::array<int64_t, 5> kMostBytes{4 * kKiB, 64 * kKiB, kKiB* kKiB, 16 * kKiB* kKiB, 0};
constexpr std::string_view kStart = "start: ", kWait = "wait: ", kBytes = " bytes";
constexpr std::string_view kStepEnd = "clip";  // each step has one

size_t class_of(int64_t bytes) {
  const auto* found = std::find_if(kMostBytes.begin(), kMostBytes.end() - 1,
                                   [&](int64_t most) { return bytes <= most; });
  return static_cast<size_t>(found - kMostBytes.begin());
}

/// Label and bytes of "start: LABEL, N bytes"; nothing for other names.
std::optional<std::pair<std::string, int64_t>> started(std::string_view name) {
  if (!name.starts_with(kStart) || !name.ends_with(kBytes)) return std::nullopt;
  name.remove_prefix(kStart.size());
  name.remove_suffix(kBytes.size());
  const auto comma = name.rfind(", ");
  int64_t bytes = 0;
  if (comma == std::string_view::npos || !parse_number(name.substr(comma + 2), bytes)) {
    return std::nullopt;
  }
  return std::pair(std::string(name.substr(0, comma)), bytes);
}

}  // namespace

std::vector<CollectivesOfSize> traced_collectives(const formats::TraceFile& trace) {
  std::array<CollectivesOfSize, kMostBytes.size()> classes;
  int64_t num_steps = 0;
  std::map<std::string, int64_t> bytes_of;  // by label, of the last that started
  for (const auto& [thread, marks] : trace.threads) {
    int64_t ends = 0;
    for (const auto& [name, begin, end] : marks) {
      ends += name == kStepEnd;
      if (const auto start = started(name)) {
        const auto& [label, bytes] = *start;
        bytes_of[label] = bytes;
        auto& known = classes.at(class_of(bytes));
        known.per_step += 1;
        known.bytes_per_step += static_cast<double>(bytes);
        known.seconds_per_step += end - begin;
      } else if (name.starts_with(kWait)) {
        const auto known = bytes_of.find(name.substr(kWait.size()));
        if (known != bytes_of.end())
          classes.at(class_of(known->second)).seconds_per_step += end - begin;
      }
    }
    num_steps = std::max(num_steps, ends);
  }
  std::vector<CollectivesOfSize> out;
  for (size_t i = 0; i < classes.size() && num_steps > 0; ++i) {
    auto known = classes.at(i);
    if (known.per_step == 0) continue;
    known.most_bytes = kMostBytes.at(i);
    for (auto* value : {&known.per_step, &known.bytes_per_step, &known.seconds_per_step}) {
      *value /= static_cast<double>(num_steps);
    }
    out.push_back(known);
  }
  return out;
}

}  // namespace convoy::report
