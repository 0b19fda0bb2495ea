#pragma once

#include <set>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/tasks/language/generate.h"

namespace convoy::tasks {

/// Hugging Face's generation_config.json: how a model's authors would have it go on.
struct GenerationConfig {
  Json json = Json::object();
  std::string file;  ///< for messages

  /// What it says goes to `options` and `stops`, but for keys that were `typed`. Returns sentences
  /// for a person: what was taken, and what else it asks for and generate does not do. Throws
  /// FileError for a value that cannot be.
  std::vector<std::string> take(const std::set<std::string>& typed, GenerateOptions& options,
                                std::vector<std::string>& stops) const;
};

}  // namespace convoy::tasks
