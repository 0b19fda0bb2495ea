#pragma once

// Internal to the component: the rows of sessions.

#include <span>
#include <vector>

#include "convoy/prepare/items.h"
#include "convoy/prepare/people.h"
#include "convoy/prepare/sessions.h"
#include "convoy/prepare/sessions_order.h"
#include "convoy/prepare/sessions_writer.h"

namespace convoy::prepare {

/// Earlier events that a row begins with.
struct RowContext {
  std::span<const int32_t> past = {};  ///< items of the earlier preparation, by id
  std::vector<int64_t> places = {};    ///< of the order, ascending

  int64_t size() const { return std::ssize(past) + std::ssize(places); }
};

/// Everything that rows are made of.
struct Material {
  const Events& events;
  const SessionOrder& order;
  const ColumnIds& items;
  const std::vector<ColumnIds>& categories;  ///< by feature; empty for continuous ones
  const People& people;
  bool keep_time = false;
  int64_t context = 0;            ///< SessionOptions::context
  std::vector<bool> trains = {};  ///< by place of the order: not held out; empty without context

  size_t event_at(int64_t place) const {
    return static_cast<size_t>(order.events[static_cast<size_t>(place)]);
  }
  /// Id of the item at a place of the order.
  int64_t item_at(int64_t place) const { return items.id(events.item.codes[event_at(place)]); }
  /// Value of a continuous feature of a session.
  float value_of(const Session& session, const EventFeature& feature) const;
  void write_session_values(SessionWriter& writer, const Session& session) const;
  /// Context of a row whose own events begin at place `begin`.
  RowContext context_of(const Session& session, int64_t begin, bool of_training) const;
  /// Writes a row of context and the session's events from `begin` up to `end`.
  void write(SessionWriter& writer, const Session& session, int64_t begin, int64_t end,
             const RowContext& before) const;

 private:
  void write_event(SessionWriter& writer, int64_t place) const;
};

/// Writes the training rows of the sessions of `window`; 0 = all. Marks in `shown`, by id, the
/// items of rows that train something, which have two items or more.
void write_train(const SessionOptions& options, const Material& material, int64_t window,
                 SessionWriter& writer, std::vector<bool>& shown, SessionReport& report);
/// Writes the rows of held-out targets, of validation or else of the test. Each target has a row of
/// its own, with the events before it. `shown`: by write_train().
void write_targets(const SessionOptions& options, const Material& material, int64_t window,
                   bool is_test, SessionWriter& writer, const std::vector<bool>& shown,
                   TargetRows& report);
/// Counts the events without times or without values of features.
void count_gaps(const Material& material, SessionReport& report);
/// Throws FileError where no window had a row.
void finish_train(const SessionOptions& options, SessionReport& report);

}  // namespace convoy::prepare
