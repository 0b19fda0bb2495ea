#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace convoy::prepare {

/// One recommended item of one session.
struct RecommendationRow {
  int64_t row = 0;
  std::string user_id;  ///< "" = none
  int64_t rank = 0;     ///< 1 = best
  std::string item_id;
  float score = 0;
  std::string name;  ///< "" = none
};

/// Writes recommendations as Parquet, in bounded memory; the file appears whole or not at all.
class RecommendationFile {
 public:
  /// Throws FileError when the file cannot be made.
  explicit RecommendationFile(const std::filesystem::path& file);
  ~RecommendationFile();

  void add(const RecommendationRow& row);
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::prepare
