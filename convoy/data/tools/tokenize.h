#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "convoy/base/progress.h"

namespace convoy::data {

struct TokenizeOptions {
  std::vector<std::filesystem::path> inputs;  ///< files, as read_texts() takes them
  std::filesystem::path tokenizer;            ///< folder or file
  std::filesystem::path output;               ///< the Parquet file to write
  std::string column = "text";                ///< of .jsonl and .parquet
  bool add_special_tokens = true;
  bool strict = false;  ///< refuse bytes that are not UTF-8
  int threads = 0;      ///< 0: as many as there are cores
};

struct TokenizeReport {
  int64_t num_texts = 0;
  int64_t num_bytes = 0;
  int64_t num_tokens = 0;
  int64_t num_malformed = 0;  ///< places that were not UTF-8 and became U+FFFD
  int64_t num_row_groups = 0;
  int32_t vocab_size = 0;
  std::string fingerprint;
};

/// Writes the ids of texts, in their order: a row with a list of int32 per text. The same file for
/// any number of threads; it appears whole or not at all. `progress` counts bytes of all inputs.
/// Throws UsageError and FileError.
TokenizeReport tokenize(const TokenizeOptions& options, const ProgressFn& progress = {});

}  // namespace convoy::data
