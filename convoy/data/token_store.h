#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace convoy::data {

/// Ids one after the other: in memory, or where they take more than a budget in a file without a
/// name, of which the system keeps in memory what there is room for.
class TokenStore {
 public:
  static constexpr int64_t kNoLimit = INT64_MAX;

  /// `memory_budget` in bytes. The file is in $TMPDIR.
  explicit TokenStore(int64_t memory_budget = kNoLimit) : budget_(memory_budget) {}
  ~TokenStore();
  TokenStore(const TokenStore&) = delete;
  TokenStore& operator=(const TokenStore&) = delete;

  /// Throws FileError when the file cannot take them.
  void append(std::span<const int32_t> ids);

  int64_t size() const { return num_written_ + static_cast<int64_t>(in_memory_); }
  bool in_file() const { return file_ >= 0; }

  /// All ids, for as long as this lives and nothing is appended.
  std::span<const int32_t> ids();

 private:
  void reserve(size_t count);
  void release();
  void write();

  int64_t budget_;
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
