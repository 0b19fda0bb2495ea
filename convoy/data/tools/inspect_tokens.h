#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "convoy/base/json.h"
#include "convoy/base/progress.h"

namespace convoy::data {

/// Content of a file of ids that another program wrote.
struct TokenReport {
  std::string where, format;
  int64_t bytes = 0;  ///< of the ids
  int64_t num_tokens = 0, num_documents = 0;
  int64_t min_length = 0, max_length = 0;  ///< of a document
  int64_t min_id = 0, max_id = 0;
};

/// Reads all ids of a file that map_binary_tokens() maps, or of a column of Arrow's own files;
/// nothing for another file. Throws UsageError where the column holds text.
std::optional<TokenReport> inspect_tokens(const std::filesystem::path& file,
                                          const std::string& column,
                                          const ProgressFn& progress = {});

std::string to_text(const TokenReport& report);
Json to_json(const TokenReport& report);

}  // namespace convoy::data
