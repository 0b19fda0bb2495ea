#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace convoy::prepare {

/// Writes the labels of texts as Parquet, in bounded memory: columns row, label, score, and "score
/// of ..." of each label. The file appears whole or not at all.
class LabelFile {
 public:
  /// Throws FileError when the file cannot be made.
  LabelFile(const std::filesystem::path& file, const std::vector<std::string>& labels);
  ~LabelFile();

  /// `best`: a place in `scores`, which has one of each label.
  void add(int64_t row, size_t best, std::span<const double> scores);
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::prepare
