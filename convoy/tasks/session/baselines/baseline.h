#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy::tasks {

inline constexpr const char* kPopularity = "popularity";
inline constexpr const char* kItemKnn = "itemknn";
inline constexpr const char* kEase = "ease";

/// Recommender that a model is compared with.
struct Baseline {
  std::string name;   ///< kPopularity, kItemKnn or kEase
  double number = 0;  ///< neighbours of kItemKnn, regularization of kEase

  bool operator==(const Baseline&) const = default;
};

/// Parses an option's value: "popularity", "itemknn:100", "ease:250"; numbers may be left out. No
/// baseline for "none". Throws UsageError for another text, and for a baseline given twice.
std::vector<Baseline> parse_baselines(const std::vector<std::string>& texts);

/// Throws UsageError where EASE of so many items takes more than `available` bytes; 0 = unknown.
void check_memory_of(const std::vector<Baseline>& baselines, int64_t num_items, int64_t available);

}  // namespace convoy::tasks
