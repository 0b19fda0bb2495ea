#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

namespace convoy::formats {

/// Writes an event file that TensorBoard reads: scalars by tag and step. Every call appends one
/// whole record and flushes, so that the file can be watched while it grows.
///
/// Source: TFRecord framing (length and content, each with a masked CRC-32C) around messages of
/// TensorFlow's event.proto and summary.proto.
class TensorboardWriter {
 public:
  /// Creates `folder` and in it `events.out.tfevents.<seconds>.<host>.<process>`. Throws FileError.
  explicit TensorboardWriter(const std::filesystem::path& folder);

  void add_scalars(const std::map<std::string, double>& values, int64_t step);

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(std::string_view event);

  std::filesystem::path path_;
  std::ofstream out_;
};

/// CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

}  // namespace convoy::formats
