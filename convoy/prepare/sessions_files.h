#pragma once

// Internal to the component: several output files that appear together.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/prepare/sessions_writer.h"

namespace convoy::prepare {

/// Returns the names of files that an earlier preparation left in this folder beside the files that
/// all write. These are users' files, files of categorical features by its schema (as far as a
/// preparation writes such), scales, and windows.
std::vector<std::string> earlier_files(const std::filesystem::path& folder);

/// Returns the name of a window's folder: 0001.
std::string window_folder(int64_t window);

/// Throws UsageError where a file cannot take this place, or a run has files of its own.
void check_place(const std::filesystem::path& file);

/// Files that are written beside their final places and take them together, in the order in which
/// they were added. schema.json is the last: without it nobody takes them for a data set.
class FileSet {
 public:
  /// Makes an empty set for `folder`. Files of the set must not replace `inputs`.
  explicit FileSet(std::filesystem::path folder, std::vector<std::filesystem::path> inputs = {})
      : folder_(std::move(folder)), inputs_(std::move(inputs)) {}

  /// Adds a file of that final name, and returns the path to write it to. Throws UsageError when
  /// the name is an input, a folder, or in the folder of a run.
  const std::filesystem::path& add(const std::string& name) {
    finals_.push_back(folder_ / name);
    check_keeps_inputs("prepare", finals_.back(), inputs_);
    check_place(finals_.back());
    files_.push_back(std::make_unique<AtomicFile>(finals_.back()));
    return files_.back()->temporary();
  }
  const std::filesystem::path& last() const { return finals_.back(); }

  SessionWriter sessions(const std::string& name, std::vector<SessionWriter::Column> columns,
                         int64_t row_group_size) {
    const std::filesystem::path& file = add(name);
    return {file, last(), std::move(columns), row_group_size};
  }

  /// Renames the files to their final names, and removes files of an earlier run in `stale` that
  /// this one did not write.
  std::vector<std::filesystem::path> commit(const std::vector<std::string>& stale) {
    internal_check(finals_.back() == folder_ / kSchema, "prepare", "{} is not the last file",
                   kSchema);
    for (auto& file : files_) file->flush();
    std::error_code ignored;
    std::filesystem::remove(folder_ / kSchema, ignored);
    for (const std::string& name : stale) {
      const auto file = folder_ / name;
      if (std::find(finals_.begin(), finals_.end(), file) != finals_.end()) continue;
      std::filesystem::remove(file, ignored);
      if (file.parent_path() != folder_) std::filesystem::remove(file.parent_path(), ignored);
    }
    for (auto& file : files_) file->commit();
    return finals_;
  }

 private:
  static constexpr const char* kSchema = "schema.json";

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> inputs_;
  std::vector<std::filesystem::path> finals_;
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

}  // namespace convoy::prepare
