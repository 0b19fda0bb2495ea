#pragma once

// Internal to the room: several output files that appear together.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/data/sessions_writer.h"

namespace convoy::data {

/// Files that are written beside their final places and take them together.
class FileSet {
 public:
  explicit FileSet(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Where to write the file of that final name.
  const std::filesystem::path& add(const std::string& name) {
    finals_.push_back(folder_ / name);
    files_.push_back(std::make_unique<AtomicFile>(finals_.back()));
    return files_.back()->temporary();
  }
  const std::filesystem::path& last() const { return finals_.back(); }

  SessionWriter sessions(const std::string& name, std::vector<SessionWriter::ListColumn> columns,
                         int64_t row_group_size) {
    const std::filesystem::path& file = add(name);
    return {file, last(), std::move(columns), row_group_size};
  }

  std::vector<std::filesystem::path> commit() {
    for (auto& file : files_) file->commit();
    return finals_;
  }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> finals_;
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

}  // namespace convoy::data
