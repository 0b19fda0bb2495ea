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

/// Reads `.csv`, `.tsv`, `.jsonl` or Parquet. Labels are texts or whole numbers. Throws FileError
/// and UsageError that name file, column and row.
LabelledTexts read_labelled_texts(const std::filesystem::path& file,
                                  const LabelledColumns& columns);

}  // namespace convoy::data
