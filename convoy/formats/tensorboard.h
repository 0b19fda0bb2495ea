#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "convoy/base/append_file.h"

namespace convoy::formats {

/// Writes an event file that TensorBoard reads: scalars by tag and step. Every call appends one
/// whole record, so that the file can be watched while it grows.
///
/// Source: TFRecord framing (length and content, each with a masked CRC-32C) around messages of
/// TensorFlow's event.proto and summary.proto.
class TensorboardWriter {
 public:
  /// Creates `folder` and in it `events.out.tfevents.<seconds>.<host>.<process>`. Throws FileError.
  explicit TensorboardWriter(const std::filesystem::path& folder);

  /// Returns what AppendFile::append() says.
  std::string add_scalars(const std::map<std::string, double>& values, int64_t step);
  /// Makes TensorBoard forget what the folder's earlier files have from `step` on: a run that goes
  /// on from a checkpoint makes those steps again. Returns what AppendFile::append() says.
  std::string purge(int64_t step);
  /// Returns what AppendFile::flush() says.
  std::string flush() { return out_->flush(); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::string write_record(std::string_view event);

  std::filesystem::path path_;
  std::optional<AppendFile> out_;
};

/// CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

}  // namespace convoy::formats
