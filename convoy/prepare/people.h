#pragma once

// Internal to the component: what each user had, of these events and an earlier preparation's.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/prepare/items.h"
#include "convoy/prepare/seen.h"
#include "convoy/prepare/sessions_order.h"
#include "convoy/prepare/sessions_writer.h"

namespace convoy::prepare {

/// Users with their whole lists. Users of the earlier preparation who have no event now come last.
class People {
 public:
  /// `earlier`: the folder of --ids-from, whose items keep their ids; "" = none.
  People(const Events& events, const SessionOrder& order, const std::filesystem::path& earlier);

  /// Items that the user of a session had at place `end` of the order.
  int64_t num_seen(const Session& session, int64_t end) const;
  /// Events with an item that their user had before, in these events or the earlier preparation's.
  int64_t count_repeats(const SessionOrder& order, const Codes& column,
                        const ColumnIds& items) const;
  /// Items that a user of these events had in the earlier preparation.
  std::span<const int32_t> past_of(int64_t user_id) const {
    return past_.of(past_ids_[static_cast<size_t>(user_id - 1)]);
  }
  /// Place of the order of a user's first event.
  int64_t first_place(int64_t user_id) const { return first_[static_cast<size_t>(user_id - 1)]; }
  /// Users of whom the earlier preparation keeps a list.
  int64_t num_past() const { return past_.num_users(); }
  /// For users.parquet.
  const std::vector<Item>& users() const { return users_; }
  /// kSeenFile.
  void write(const SessionOrder& order, const Codes& column, const ColumnIds& items,
             SessionWriter& writer) const;

 private:
  std::vector<Item> users_;
  std::vector<int64_t> first_, end_;  ///< by number - 1: places of the order
  SeenLists past_;
  std::vector<int64_t> past_ids_;  ///< by number - 1: the user's in past_; 0 = none
};

}  // namespace convoy::prepare
