#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace convoy::tasks {

/// Beside the weights of a run: the items that neither its training nor an earlier one that it goes
/// on from has seen.
inline constexpr const char* kUnseenFile = "unseen_items.json";

/// Items of a model that a training has seen, or that have a vector of their own. The others have
/// random embeddings: as inputs they are unknown, and they are not recommended.
class KnownItems {
 public:
  /// All ids below `num_ids`, as of data without items.parquet.
  explicit KnownItems(int64_t num_ids) : known_(static_cast<size_t>(num_ids), true) {}
  /// By id; padding, 0, counts as known.
  explicit KnownItems(std::vector<bool> known);
  /// Known items of the run in `folder`, or above a checkpoint; all `num_ids` where it does not
  /// tell. Throws FileError for a file of another form.
  static KnownItems of_run(const std::filesystem::path& folder, int64_t num_ids);

  /// Adds those of an earlier run, which may have fewer ids.
  void add(const KnownItems& earlier);

  bool knows(int64_t id) const {
    return id < std::ssize(known_) && known_[static_cast<size_t>(id)];
  }
  std::vector<int64_t> unseen() const;
  const std::vector<bool>& by_id() const { return known_; }

  /// {"num_ids": 1683, "unseen": [[1680, 1682]]}: stretches of ids, first and last.
  std::string to_json() const;

 private:
  std::vector<bool> known_;
};

}  // namespace convoy::tasks
