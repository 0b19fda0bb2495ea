#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace convoy::prepare {

/// Beside sessions: users by their numbers, as items.parquet has items.
inline constexpr const char* kUsersFile = "users.parquet";
/// Beside sessions: a row for each user of kUsersFile, with all items that the user ever had,
/// oldest first.
inline constexpr const char* kSeenFile = "seen.parquet";
/// A column of sessions: how many items of that list the user had at the end of the row.
inline constexpr const char* kNumSeen = "num_seen";
/// A column of sessions: how many items, the first ones of the row, are context that is read and
/// not trained on. A file without it has none.
inline constexpr const char* kNumContext = "num_context";
/// Beside sessions: what is decided for all who read them.
inline constexpr const char* kDecisionsFile = "sessions.json";

/// Items that each user had, by the user's number.
class SeenLists {
 public:
  SeenLists() = default;
  /// Reads kSeenFile. Throws FileError for another form.
  explicit SeenLists(const std::filesystem::path& file);

  int64_t num_users() const { return std::ssize(ends_); }
  bool has(int64_t user_id) const { return user_id >= 1 && user_id <= num_users(); }
  /// All items of a user, or the first `count`; none of a user that is not there.
  std::span<const int32_t> of(int64_t user_id) const;
  std::span<const int32_t> of(int64_t user_id, int64_t count) const;

 private:
  std::vector<int32_t> items_;
  std::vector<int64_t> ends_;  ///< of the list of user i + 1
};

/// Whether results leave out what a user has seen: as convoy data sessions decided, in a folder of
/// sessions or one level up; false where nothing is said.
bool decided_to_exclude(const std::filesystem::path& decisions);

}  // namespace convoy::prepare
