#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/progress.h"

namespace convoy::data {

/// Some texts of a file, one after the other.
struct TextBatch {
  std::filesystem::path file;
  int64_t first = 0;          ///< number of the first text in the file
  std::string bytes;          ///< of all texts; may not be UTF-8
  std::vector<size_t> ends;   ///< of each text in `bytes`
  int64_t num_malformed = 0;  ///< places that reading had to replace by U+FFFD

  int64_t size() const { return static_cast<int64_t>(ends.size()); }
  std::string_view text(int64_t i) const {
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
};

/// Kinds of files that read_texts() reads, for messages.
inline constexpr const char* kKindsOfTexts =
    ".txt, .jsonl, .parquet, .arrow or a folder of datasets' save_to_disk()";

/// Column of texts where nobody names one.
inline constexpr const char* kTextColumn = "text";

/// Throws FileError, naming the `kinds` that are read, unless this is a file that can be read
/// again.
void check_text_file(const std::filesystem::path& file, const char* kinds);

/// ".txt", ".jsonl", ".parquet", ".arrow" (a folder, too), or another ending that the file's name
/// has. A name without one, as a pipe has, leaves it to the first bytes.
std::string kind_of_texts(const std::filesystem::path& file);

/// Reads the texts of a file, about a megabyte at a time: the lines of `.txt` (with a "\n" at their
/// ends, also where the file has "\r\n" or "\r", as Hugging Face's `datasets` reads them), the
/// values of `column` in the objects of `.jsonl`, or a column of text of `.parquet`, `.arrow` or a
/// folder that Hugging Face's `datasets` saved. `progress` counts bytes; of Arrow data, files.
/// Throws FileError that names file and line or row.
void read_texts(const std::filesystem::path& file, const std::string& column,
                const std::function<void(TextBatch)>& consume, const ProgressFn& progress);

}  // namespace convoy::data
