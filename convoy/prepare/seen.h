#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace convoy::prepare {

/// File beside sessions with the users by their numbers, as items.parquet has items.
inline constexpr const char* kUsersFile = "users.parquet";
/// File beside sessions with a row for each user of kUsersFile: all items that the user ever had,
/// oldest first.
inline constexpr const char* kSeenFile = "seen.parquet";
/// Column of sessions: number of items of kSeenFile's list that the user had at the end of the row.
inline constexpr const char* kNumSeen = "num_seen";
/// Column of sessions: number of items at the start of the row that are context, which is read and
/// not trained on. A file without the column has no context.
inline constexpr const char* kNumContext = "num_context";
/// File beside sessions with decisions that hold for all readers, such as whether seen items are
/// excluded.
inline constexpr const char* kDecisionsFile = "sessions.json";

/// Lists of the items that each user had, by the user's number.
class SeenLists {
 public:
  SeenLists() = default;
  /// Reads kSeenFile. Throws FileError for another form.
  explicit SeenLists(const std::filesystem::path& file);

  int64_t num_users() const { return std::ssize(ends_); }
  bool has(int64_t user_id) const { return user_id >= 1 && user_id <= num_users(); }
  /// Returns all items of a user, or the first `count`; none of a user that is not there.
  std::span<const int32_t> of(int64_t user_id) const;
  std::span<const int32_t> of(int64_t user_id, int64_t count) const;

 private:
  std::vector<int32_t> items_;
  std::vector<int64_t> ends_;  ///< where the list of user i + 1 ends in items_
};

/// Whether results leave out what a user has seen, as convoy data sessions decided. `decisions`:
/// the kDecisionsFile in a folder of sessions or one level up. Returns false where there is no such
/// file. Throws FileError for another form.
bool decided_to_exclude(const std::filesystem::path& decisions);

}  // namespace convoy::prepare
