#pragma once

// Internal to the component: events in the order of users and time, cut into sessions, with ids.

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/prepare/events.h"
#include "convoy/prepare/items.h"

namespace convoy::prepare {

/// Events [begin, end) of SessionOrder::events. hold_out() says which of them train and which are
/// targets.
struct Session {
  int64_t user_id = 0;  ///< 1, 2, ... in raw order
  int64_t begin = 0;
  int64_t end = 0;
  int64_t window = 0;  ///< 1, 2, ... where there are windows

  int64_t train_end = 0;                   ///< events before it train
  int64_t valid_begin = 0, valid_end = 0;  ///< targets of validation; those of the test follow
};

struct SessionOrder {
  std::vector<int64_t> events;  ///< indexes into Events, by (user, time), without dropped ones
  std::vector<Session> sessions;
  int64_t num_users = 0;
};

/// Windows of whole days (UTC), counted from the day of the first event. With 0 days there are
/// none.
class DayWindows {
 public:
  /// Throws FileError where an event that counts has no time.
  DayWindows(const Events& events, int64_t days);
  /// Returns the window of an event: 1, 2, ...; 0 where there are none.
  int64_t of(int64_t event) const;

 private:
  int64_t day_of(int64_t event) const;

  const Events& events_;
  int64_t days_, first_day_ = 0;
};

/// Whether an event has a user and an item.
bool is_whole(const Events& events, size_t event);

/// Sorts events by (user, time) and cuts them at pauses longer than `gap_seconds` (0: never), and
/// where windows end.
SessionOrder order_sessions(const Events& events, double gap_seconds, const DayWindows& windows);

/// Finds events with the user, the item and the time of an earlier one (none where there are no
/// times). Takes them out of `order` if `take_out`. Returns their number.
int64_t find_duplicates(const Events& events, SessionOrder& order, bool take_out);

/// Counts of the events of `order` whose time says little of their place among those of their user.
struct TimeCounts {
  int64_t missing = 0;  ///< events without a time, which come last
  int64_t ties = 0;     ///< events at the time of the one before, in the order of the files
  /// Number of events without a time in each further column. They come last among those alike in
  /// the columns before.
  std::vector<int64_t> missing_later = {};
};
TimeCounts count_times(const Events& events, const SessionOrder& order);

/// Returns the users by number: id as in Session, raw id, and the number of events.
std::vector<Item> users_of(const Codes& users, const SessionOrder& order);

/// Ids of the values of a column. They count by the first window that has the value, then by
/// falling count in training (in that window), ties in raw order.
struct ColumnIds {
  std::vector<int64_t> ids;  ///< by code
  std::vector<Item> items;   ///< by id - 1

  int64_t id(int32_t code) const { return code < 0 ? 0 : ids[static_cast<size_t>(code)]; }
  int64_t size() const { return static_cast<int64_t>(items.size()); }
};

/// Makes the vocabulary of a column. Only events that train count. Values that no ordered event has
/// get no id. Values of an earlier vocabulary keep their ids, whether they occur or not.
ColumnIds make_vocabulary(const Codes& column, const SessionOrder& order,
                          const ItemNames& earlier = {});

}  // namespace convoy::prepare
