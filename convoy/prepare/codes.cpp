#include "convoy/prepare/codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "convoy/base/text.h"

namespace convoy::prepare {

namespace {

/// Parses a whole number in canonical form, "12" or "-3"; false for others, such as "012" or "+1".
bool canonical_integer(const std::string& text, int64_t& out) {
  return parse_number(text, out) && fmt::format_int(out).str() == text;
}

}  // namespace

Interner::Interner(Codes& codes) : codes_(codes) {}

void Interner::append(std::string_view value) {
  auto found = numbers_.find(value);
  if (found == numbers_.end()) {
    found = numbers_.emplace(std::string(value), static_cast<int32_t>(codes_.values.size())).first;
    codes_.values.emplace_back(value);
  }
  codes_.codes.push_back(found->second);
}

std::vector<int32_t> raw_ranks(const std::vector<std::string>& values) {
  std::vector<int64_t> numbers(values.size());
  bool all_numbers = true;
  for (size_t i = 0; i < values.size() && all_numbers; ++i) {
    all_numbers = canonical_integer(values[i], numbers[i]);
  }
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto i = static_cast<size_t>(a);
    const auto j = static_cast<size_t>(b);
    return all_numbers ? numbers[i] < numbers[j] : values[i] < values[j];
  });
  std::vector<int32_t> ranks(values.size());
  for (size_t place = 0; place < order.size(); ++place) {
    ranks[static_cast<size_t>(order[place])] = static_cast<int32_t>(place);
  }
  return ranks;
}

}  // namespace convoy::prepare
