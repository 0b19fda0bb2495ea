#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/data/columns.h"

namespace convoy::data {

/// Ids that a model knows. Values of a row that stand at an unknown id are passed over before the
/// row is cut.
struct KnownIds {
  std::string column;                              ///< lists of ids; "": all are known
  std::shared_ptr<const std::vector<bool>> known;  ///< by id; beyond it none is
  /// Known ids of other categorical columns, by id: another one counts as 0, none.
  std::map<std::string, std::shared_ptr<const std::vector<bool>>> others = {};
  bool keeps_missed = false;  ///< missed rows keep what is known of them, beside the target's place

  bool knows(int64_t id) const { return has(*known, id); }
  static bool has(const std::vector<bool>& ids, int64_t id) {
    return id < std::ssize(ids) && ids[static_cast<size_t>(id)];
  }
  int64_t size() const { return std::ssize(*known); }
};

/// Places of a row's values that are read.
struct KnownPlaces {
  std::vector<int64_t> places;  ///< ascending, from the row's first value on
  /// Whether the row has a target, but nothing ranks it: the model has no such id, or reads nothing
  /// before it. It has no places then, or with KnownIds::keeps_missed the known ones and the
  /// target's, whose id nobody may read.
  bool missed = false;
};

/// Looks at the first `length` values of a row from `begin` on. `has_target`: the last one is what
/// the row is evaluated on, and stays if the model has such an id, known or not.
KnownPlaces known_places(const KnownIds& known, const Column& column, int64_t begin, int64_t length,
                         bool has_target);

}  // namespace convoy::data
