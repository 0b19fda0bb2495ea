#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "convoy/data/token_view.h"

namespace convoy::data {

/// Ids one after the other: in memory, or where they take more than a budget in a file without a
/// name, of which the system keeps in memory what there is room for.
class TokenStore {
 public:
  static constexpr int64_t kNoLimit = INT64_MAX;

  /// `memory_budget` in bytes. The file is in $TMPDIR.
  explicit TokenStore(int64_t memory_budget = kNoLimit) : budget_(memory_budget) {}
  /// Ids of a file that is mapped already, which `mapped` keeps. Nothing can be appended.
  TokenStore(TokenView ids, std::shared_ptr<const void> mapped)
      : foreign_(ids), foreign_file_(std::move(mapped)) {}
  ~TokenStore();
  TokenStore(const TokenStore&) = delete;
  TokenStore& operator=(const TokenStore&) = delete;

  /// Throws FileError when the file cannot take them.
  void append(std::span<const int32_t> ids);

  int64_t size() const {
    return foreign_file_ ? foreign_.size() : num_written_ + static_cast<int64_t>(in_memory_);
  }
  bool in_file() const { return file_ >= 0; }
  /// Whether the ids are another program's file, of which nobody has looked at every id.
  bool is_foreign() const { return foreign_file_ != nullptr; }

  /// All ids, for as long as this lives and nothing is appended.
  TokenView view();
  /// All ids, like view(), if they are not another program's file.
  std::span<const int32_t> ids();

 private:
  void reserve(size_t count);
  void release();
  void write();

  TokenView foreign_;
  std::shared_ptr<const void> foreign_file_;
  int64_t budget_ = kNoLimit;
  // All, or what is not written yet: pages of the system's, which grow without a copy beside them.
  int32_t* memory_ = nullptr;
  size_t in_memory_ = 0, capacity_ = 0;
  int file_ = -1;
  std::filesystem::path folder_;
  int64_t num_written_ = 0;
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
};

}  // namespace convoy::data
