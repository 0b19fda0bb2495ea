#pragma once

// Internal to the component: items of each user in these events and in an earlier preparation.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/prepare/items.h"
#include "convoy/prepare/seen.h"
#include "convoy/prepare/sessions_order.h"
#include "convoy/prepare/sessions_writer.h"

namespace convoy::prepare {

/// Users with all their items. Users of the earlier preparation without an event now come last.
class People {
 public:
  /// Reads the users of these events and of `earlier`, the folder of --ids-from, whose items keep
  /// their ids; "" = none. Throws FileError for a file of another form.
  People(const Events& events, const SessionOrder& order, const std::filesystem::path& earlier);

  /// Returns the number of items that a session's user had before place `end` of the order, those
  /// of the earlier preparation included.
  int64_t num_seen(const Session& session, int64_t end) const;
  /// Returns the number of events with an item that their user had before, in these events or in
  /// the earlier preparation.
  int64_t count_repeats(const SessionOrder& order, const Codes& column,
                        const ColumnIds& items) const;
  /// Returns the items that a user of these events had in the earlier preparation.
  std::span<const int32_t> past_of(int64_t user_id) const {
    return past_.of(past_ids_[static_cast<size_t>(user_id - 1)]);
  }
  /// Returns the place of a user's first event in the order.
  int64_t first_place(int64_t user_id) const { return first_[static_cast<size_t>(user_id - 1)]; }
  /// Number of users of whom the earlier preparation keeps a list.
  int64_t num_past() const { return past_.num_users(); }
  /// Returns the entries of users.parquet.
  const std::vector<Item>& users() const { return users_; }
  /// Writes the rows of kSeenFile.
  void write(const SessionOrder& order, const Codes& column, const ColumnIds& items,
             SessionWriter& writer) const;

 private:
  std::vector<Item> users_;
  std::vector<int64_t> first_, end_;  ///< places of the order, by number - 1
  SeenLists past_;
  std::vector<int64_t> past_ids_;  ///< numbers in past_, by number - 1; 0 = none
};

}  // namespace convoy::prepare
