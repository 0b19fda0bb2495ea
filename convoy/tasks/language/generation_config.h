#pragma once

#include <set>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/tasks/language/generate.h"

namespace convoy::tasks {

inline constexpr const char* kGenerationConfig = "generation_config.json";

/// Hugging Face's generation_config.json: the settings that a model's authors propose.
struct GenerationConfig {
  Json json = Json::object();
  std::string file;  ///< for messages

  /// Sets `options` and `stops` from it, but for keys that were `typed`. Returns sentences for a
  /// person: the settings taken, and those that generate does not know. Throws FileError for an
  /// impossible value.
  std::vector<std::string> take(const std::set<std::string>& typed, GenerateOptions& options,
                                std::vector<std::string>& stops) const;
};

}  // namespace convoy::tasks
