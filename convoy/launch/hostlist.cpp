#include "convoy/launch/hostlist.h"

#include <algorithm>
#include <cstdint>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::launch {
namespace {

constexpr size_t kMostHosts = 65536;

[[noreturn]] void bad_list(std::string_view text, std::string_view why) {
  fail<UsageError>("launch",
                   "cannot read the host list '{}': {}; expected a form like node[01-04,7],other",
                   text, why);
}

/// Splits at commas that stand outside brackets.
std::vector<std::string_view> split_outside(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      if (i > start) parts.push_back(text.substr(start, i - start));
      start = i + 1;
    } else if (text[i] == '[') {
      if (++depth > 1) bad_list(text, "a bracket inside a bracket");
    } else if (text[i] == ']') {
      if (--depth < 0) bad_list(text, "']' without '['");
    }
  }
  if (depth != 0) bad_list(text, "'[' without ']'");
  return parts;
}

/// Expands "03-05,9" to 03 04 05 9, with the zeros kept.
std::vector<std::string> expand_ranges(std::string_view ranges, std::string_view whole) {
  std::vector<std::string> numbers;
  for (const std::string& range : split(ranges, ',')) {
    const size_t dash = range.find('-');
    const std::string low_text = range.substr(0, dash);
    const std::string high_text = dash == std::string::npos ? low_text : range.substr(dash + 1);
    int64_t low = 0;
    int64_t high = 0;
    if (!parse_number(low_text, low) || !parse_number(high_text, high) || low < 0 || high < low) {
      bad_list(whole, fmt::format("'{}' is no range of numbers", range));
    }
    if (static_cast<uint64_t>(high - low) >= kMostHosts - std::min(numbers.size(), kMostHosts)) {
      bad_list(whole, "more than 65536 hosts");
    }
    for (int64_t i = low; i <= high; ++i) {
      numbers.push_back(fmt::format("{:0{}}", i, low_text.size()));
    }
  }
  return numbers;
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text) {
  std::vector<std::string> hosts;
  for (std::string_view part : split_outside(text)) {
    std::vector<std::string> names = {""};
    while (!part.empty()) {
      const size_t open = part.find('[');
      for (std::string& name : names) name += part.substr(0, open);
      if (open == std::string_view::npos) break;
      const size_t close = part.find(']');
      const auto numbers = expand_ranges(part.substr(open + 1, close - open - 1), text);
      if (names.size() * numbers.size() > kMostHosts) bad_list(text, "more than 65536 hosts");
      std::vector<std::string> longer;
      for (const std::string& name : names) {
        for (const std::string& number : numbers) longer.push_back(name + number);
      }
      names = std::move(longer);
      part.remove_prefix(close + 1);
    }
    hosts.insert(hosts.end(), names.begin(), names.end());
    if (hosts.size() > kMostHosts) bad_list(text, "more than 65536 hosts");
  }
  return hosts;
}

std::vector<int> expand_counts(std::string_view text) {
  std::vector<int> counts;
  for (const std::string& part : split(text, ',')) {
    const size_t open = part.find("(x");
    int64_t count = 0;
    int64_t times = 1;
    const bool well_formed = parse_number(part.substr(0, open), count) && count >= 1 &&
                             count <= 1 << 20 &&
                             (open == std::string::npos ||
                              (part.back() == ')' &&
                               parse_number(part.substr(open + 2, part.size() - open - 3), times)));
    if (!well_formed || times < 1 || counts.size() + static_cast<uint64_t>(times) > kMostHosts) {
      fail<UsageError>("launch",
                       "cannot read the tasks per node '{}'; expected a form like 2(x3),1", text);
    }
    counts.insert(counts.end(), static_cast<size_t>(times), static_cast<int>(count));
  }
  return counts;
}

}  // namespace convoy::launch
