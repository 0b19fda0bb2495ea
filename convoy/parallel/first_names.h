#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

namespace convoy::parallel {

/// First three of the names, and how many more there are.
inline std::string first_names(const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "");
}

}  // namespace convoy::parallel
