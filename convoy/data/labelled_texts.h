#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace convoy::data {

/// Texts, or pairs of them, with what each is.
struct LabelledTexts {
  std::vector<std::string> texts;
  std::vector<std::string> seconds;  ///< of pairs; empty without a second column
  std::vector<std::string> labels;

  int64_t size() const { return static_cast<int64_t>(texts.size()); }
};

struct LabelledColumns {
  std::string text = "text";
  std::string second;           ///< "" = texts alone
  std::string label = "label";  ///< "" = labels are not read
};

/// Column of second texts that a file may have, as Hugging Face's tokenizers call them.
inline constexpr const char* kPairColumn = "text_pair";

/// Whether such a file has a column; of `.jsonl` whether its first object has that key. False for
/// a pipe, which can be read once only. Throws FileError.
bool has_column(const std::filesystem::path& file, const std::string& column);

/// Reads `.csv`, `.tsv`, `.jsonl` or Parquet. Labels are texts or whole numbers. Throws FileError
/// and UsageError that name file, column and row.
LabelledTexts read_labelled_texts(const std::filesystem::path& file,
                                  const LabelledColumns& columns);

}  // namespace convoy::data
