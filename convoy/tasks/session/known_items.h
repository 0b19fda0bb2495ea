#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/models/session/session.h"

namespace convoy::tasks {

/// File beside the weights of a run with the items, and the values of other categorical features,
/// that neither its training nor an earlier one that it goes on from has seen.
inline constexpr const char* kUnseenFile = "unseen_items.json";

/// Ids of a categorical feature that a training has seen, or that have a vector of their own. The
/// others have random embeddings: as inputs they are unknown, and such items are not recommended.
class KnownItems {
 public:
  /// Knows all ids below `num_ids`, as of data without items.parquet.
  explicit KnownItems(int64_t num_ids) : known_(static_cast<size_t>(num_ids), true) {}
  /// Knows the ids that `known` says, by id. Padding, 0, counts as known.
  explicit KnownItems(std::vector<bool> known);

  /// Adds the known ids of an earlier run, which may have fewer ids.
  void add(const KnownItems& earlier);
  /// Removes the ids from `first` to `last`, as far as there are such.
  void remove(int64_t first, int64_t last);

  bool knows(int64_t id) const {
    return id < std::ssize(known_) && known_[static_cast<size_t>(id)];
  }
  std::vector<int64_t> unseen() const;
  const std::vector<bool>& by_id() const { return known_; }

  /// Returns {"num_ids": 1683, "unseen": [[1680, 1682]]}.
  Json to_json() const;

 private:
  std::vector<bool> known_;
};

/// Ids that a model knows of its items and of its other categorical features.
struct KnownIdsOfModel {
  KnownItems items{0};  ///< items that it reads and ranks
  /// Items that training saw; none = all. An item tower describes the others by their features.
  std::optional<KnownItems> trained = {};
  std::map<std::string, KnownItems> features;  ///< by column, all but the items

  /// Returns the known ids of the run in `folder`, or above a checkpoint, for a model with as many
  /// ids. Returns all ids where the run does not tell. Throws FileError for a file of another form.
  static KnownIdsOfModel of_run(const std::filesystem::path& folder,
                                const models::SessionConfig& model);

  /// Returns {"num_ids": 1683, "unseen": [[1680, 1682]], "features": {"genre-list": {...}}}. Only
  /// features with unseen values are there.
  std::string to_json() const;
  bool all() const;
  /// Returns the items that training, or an earlier one, saw.
  const KnownItems& seen_items() const { return trained ? *trained : items; }
};

}  // namespace convoy::tasks
