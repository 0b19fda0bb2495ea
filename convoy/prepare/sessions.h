#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/prepare/events.h"
#include "convoy/prepare/item_table.h"
#include "convoy/prepare/joined_features.h"
#include "convoy/prepare/validation.h"

namespace convoy::prepare {

/// Ways to cut a history that is longer than max_length into rows: consecutive blocks from its
/// start, a sliding window whose last position is its end, or its last events alone.
enum class HistoryRows { Blocks, Sliding, Last };

/// Options that say how interactions become sessions.
struct SessionOptions {
  std::vector<std::filesystem::path> inputs;  ///< CSV, TSV (also .gz) or Parquet
  std::filesystem::path output;               ///< folder
  /// Columns of the interactions; "" = the usual names. The feature `time_delta` is the time in
  /// seconds since the previous event of the session (0 for the first), unless the input has a
  /// column of that name.
  EventColumns columns;
  data::TableOptions table;

  double gap_seconds = 0;  ///< a longer pause ends a session; 0: one session per user
  /// Days of a window, at whose end sessions end, too; 0: there are no windows. Each window has a
  /// folder, `0001` and so on, with train.parquet (all its events) and valid.parquet.
  int64_t window_days = 0;
  int64_t max_length = 20;
  HistoryRows rows = HistoryRows::Blocks;
  /// Largest number of events before a row's first that the row begins with as context, also those
  /// in ids_from.
  int64_t context = 0;
  int64_t stride = 0;      ///< events between the ends of sliding windows; 0: half of max_length
  int64_t min_length = 2;  ///< shorter rows are dropped
  int64_t row_group_size = 500;
  bool keep_time = false;        ///< adds the column time-list: when each event was, in seconds
  bool drop_duplicates = false;  ///< keeps the first of events alike in user, item, time
  /// Output of an earlier run, whose items and categories keep their ids. New ones come behind.
  std::filesystem::path ids_from;
  Validation validation;  ///< events that are held out of training

  FeatureTable items;                  ///< features of items, which become features of events
  std::vector<ItemColumn> item_tower;  ///< columns of that table that are kept by item
  FeatureTable users;  ///< features of users, which become one value of each session

  std::filesystem::path names;  ///< optional table of titles
  std::string names_key;        ///< its column of raw item ids; "" = the usual names
  std::string names_value;      ///< its column of titles
};

/// First and last time of events, in seconds since 1970.
struct TimeSpan {
  double first = 0, last = 0;
};

/// Events and sessions without a value of a feature.
struct MissingValues {
  std::string feature;
  int64_t events = 0;
  bool passed_over = false;  ///< true: the other events give the session's value
  int64_t sessions = 0;      ///< if so: those without another event, whose value is 0
};

/// Counts of the rows of a split whose last items are targets.
struct TargetRows {
  int64_t num_rows = 0;
  int64_t num_sessions = 0;  ///< that have any of these rows
  int64_t num_cut = 0;       ///< rows whose history is longer
  int64_t num_unseen = 0;    ///< rows with a target that no training row shows
  int64_t num_short = 0;     ///< targets without a row, which would be below min_length
  int64_t num_first = 0;     ///< targets without a row, as nothing is before them
};

/// Counts of make_sessions(), and the files it wrote.
struct SessionReport {
  int64_t num_events = 0;
  int64_t num_dropped_events = 0;  ///< without a user or an item
  int64_t num_duplicates = 0;      ///< events with user, item and time of an earlier one
  int64_t num_untimed = 0;         ///< events without a time, which come last
  /// Number of events without a value of each further time column, by its name. Such events come
  /// last of those alike in the columns before it.
  std::vector<std::pair<std::string, int64_t>> untimed_later;
  std::optional<TimeSpan> times;   ///< of the events that have a time
  int64_t num_ties = 0;            ///< events at the time of the one before of their user
  std::vector<JoinReport> joined;  ///< tables that features came from
  /// Number of items of the tower's table without an event, which have ids behind the others.
  int64_t num_eventless_items = 0;
  int64_t num_tower_items = 0;         ///< items with some value in the tower's table
  std::vector<MissingValues> missing;  ///< of features that some events lack
  int64_t num_users = 0;
  int64_t num_sessions = 0;
  int64_t num_single_sessions = 0;  ///< of one event that is in no row
  int64_t num_windows = 0;          ///< that have rows
  int64_t num_items = 0;
  int64_t num_new_items = 0;           ///< of these, those that ids_from has not
  int64_t num_repeats = 0;             ///< events with an item that the user had before
  bool exclude_seen = false;           ///< decision that the folder keeps for results
  bool inherits_exclude_seen = false;  ///< it is that of ids_from
  int64_t num_train_rows = 0;
  int64_t num_context_rows = 0;    ///< of these, those with context
  int64_t num_context_events = 0;  ///< events that they have as context
  int64_t num_train_groups = 0;
  TargetRows valid, test;
  int64_t num_past_users = 0;     ///< users of whom ids_from keeps a list
  int64_t num_short_rows = 0;     ///< windows below min_length, dropped
  int64_t num_train_events = 0;   ///< events that are not held out
  int64_t num_unread_events = 0;  ///< events that no training row has
  int64_t num_named_items = 0;
  double mean_train_length = 0;
  std::vector<std::filesystem::path> files;
  std::vector<std::string> warnings;  ///< sentences for the user
};

/// Turns interactions into the files that training reads, written to `options.output`:
/// `train.parquet`, `valid.parquet`, with some splits `test.parquet`, `schema.json`
/// (Transformers4Rec's form), `items.parquet`, `users.parquet`, `seen.parquet`, `sessions.json` and
/// `<feature>.parquet` for each categorical feature, and with `item_tower` kItemFeaturesFile and
/// kItemFeaturesInfo. All of them appear at the end, or none. Files of features that an earlier run
/// had and this one has not are taken away.
///
/// Events are sorted by (user, time); ties keep the order of the files. Ids count from 1 by falling
/// number of training events, ties by raw id; 0 is padding, and a missing category. With windows
/// they count by the first window that has them, then by falling number in it, so that no id tells
/// what comes later.
///
/// `validation` holds events out of training. Each is the target of a row of its own, which holds
/// the last max_length events up to it. Training rows are stretches of max_length over the events
/// before them, as `rows` says. With windows a model is trained on one and evaluated on the next,
/// so training rows hold the targets, too. Rows may begin with up to `context` earlier events of
/// the person; training rows only with those that are not held out.
///
/// Interactions are held in memory. Throws UsageError for impossible options. Throws FileError as
/// read_events() does, or when the output cannot be written.
SessionReport make_sessions(const SessionOptions& options, const ProgressFn& progress = {});

}  // namespace convoy::prepare
