#include "convoy/prepare/sessions.h"
#include "convoy/prepare/seen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/prepare/scales.h"
#include "convoy/prepare/sessions_check.h"
#include "convoy/prepare/sessions_files.h"
#include "convoy/prepare/sessions_items.h"
#include "convoy/prepare/sessions_order.h"
#include "convoy/prepare/sessions_rows.h"
#include "convoy/prepare/sessions_schema.h"
#include "convoy/prepare/sessions_split.h"
#include "convoy/prepare/sessions_times.h"
#include "convoy/prepare/time_delta.h"

namespace convoy::prepare {
namespace {

namespace fs = std::filesystem;

/// Whether an option reads times in seconds: gaps, windows, kept times, `time_delta`, or a split by
/// dates.
bool counts_seconds(const SessionOptions& options, bool has_time_delta) {
  return options.gap_seconds > 0 || options.window_days > 0 || options.keep_time ||
         has_time_delta || options.validation.kind == Validation::Dates;
}

void check_times(const Events& events, const char* flag, const char* what) {
  if (events.times.empty()) fail<UsageError>("prepare", "{} needs times; got --time none", flag);
  for (int64_t event = 0; event < events.num_events; ++event) {
    const bool counts = is_whole(events, static_cast<size_t>(event));
    if (!counts || !events.times.front().missing(event)) continue;
    fail<FileError>("prepare", "event {} has no time, which {} {}; try without it", event + 1, flag,
                    what);
  }
}

constexpr const char* kTimeColumn = "time-list";

/// Columns of the files: the item's first, then the features', and last the times' if they are
/// kept.
std::vector<SessionWriter::Column> list_columns_of(const Events& events, bool keep_time,
                                                   bool has_context) {
  std::vector<SessionWriter::Column> columns = {{formats::kItemColumn, false}};
  for (const EventFeature& feature : events.features) {
    columns.push_back({feature.spec.column(), feature.spec.kind == FeatureKind::Continuous,
                       !feature.spec.of_session});
    const std::string& name = feature.spec.name;
    const bool taken = name == "item_id" || name == "train" || name == "valid" || name == "test" ||
                       name == "items" || name == "users" || name == "user_id" || name == "seen" ||
                       name == kNumSeen || name == kNumContext || (keep_time && name == "time");
    if (taken || name.find('/') != std::string::npos) {
      fail<UsageError>("prepare",
                       "a feature cannot be called '{}', as its files could not be told "
                       "from others; try another name for the column",
                       name);
    }
  }
  if (keep_time) columns.push_back({kTimeColumn, false});
  columns.push_back({kNumSeen, false, /*is_list=*/false});
  if (has_context) columns.push_back({kNumContext, false, /*is_list=*/false});
  return columns;
}

/// Throws where context needs more than the items, which is all that histories of an earlier
/// preparation have.
void check_context(const SessionOptions& options, const Events& events) {
  if (options.context == 0 || options.ids_from.empty()) return;
  std::string more = options.keep_time ? "--keep-time" : "";
  for (const auto& feature : events.features) {
    if (!feature.spec.of_session) more = "the feature " + feature.spec.name;
  }
  if (more.empty()) return;
  fail<UsageError>("prepare",
                   "--context reads the histories of {}, which have items alone, without what {} "
                   "asks for; try without it, or with the earlier events among the input and "
                   "without --context",
                   options.ids_from.string(), more);
}

/// Warning where context contains targets of an earlier preparation; "" = none.
std::string warn_of_targets(const SessionOptions& options) {
  if (options.context == 0 || options.ids_from.empty()) return "";
  const bool has_targets = fs::exists(options.ids_from / "valid.parquet") ||
                           fs::exists(options.ids_from / "test.parquet");
  if (!has_targets) return "";
  return fmt::format(
      "context has the events that {} holds out as targets: judge models that train with it on "
      "these rows, not on its valid.parquet or test.parquet",
      options.ids_from.string());
}

/// Flags by place of the order: events that train, which no split holds out.
std::vector<bool> places_that_train(const SessionOrder& order) {
  std::vector<bool> out(order.events.size(), false);
  for (const Session& session : order.sessions) {
    for (int64_t i = session.begin; i < session.train_end; ++i) out[static_cast<size_t>(i)] = true;
  }
  return out;
}

/// Number of users in a row group of kSeenFile.
constexpr int64_t kSeenRows = 4096;

/// Decides whether recommendations exclude seen items: yes where hardly any event repeats an item
/// of its user, or as decided for the data whose ids are kept.
void decide_to_exclude(const SessionOptions& options, SessionReport& report) {
  const auto earlier = options.ids_from / kDecisionsFile;
  report.inherits_exclude_seen = !options.ids_from.empty() && fs::exists(earlier);
  report.exclude_seen = report.inherits_exclude_seen ? decided_to_exclude(earlier)
                                                     : report.num_repeats * 100 < report.num_events;
}

/// Throws where a requested split has no rows.
void check_splits(const SessionOptions& options, const SessionReport& report) {
  if (!options.validation.has_test()) return;
  for (const auto& [name, rows] : {std::pair{"validation", report.valid}, {"test", report.test}}) {
    if (rows.num_rows > 0) continue;
    fail<FileError>("prepare",
                    "--validation {} leaves no {} row: {} of its targets have no event before "
                    "them, {} a row below --min-length; expected longer sessions; try "
                    "leave-last-out",
                    options.validation.text, name, rows.num_first, rows.num_short);
  }
}

/// Name of the chosen column of a table of names, or of its first usual one.
std::string names_column(const SessionOptions& options, const std::string& chosen,
                         std::vector<std::string> usual, size_t fallback) {
  if (!chosen.empty()) return chosen;
  const auto columns = list_columns(options.names, {});
  for (const std::string& name : usual) {
    if (std::find(columns.begin(), columns.end(), name) != columns.end()) return name;
  }
  return fallback < columns.size() ? columns[fallback] : usual.front();
}

void add_names(const SessionOptions& options, ColumnIds& items, SessionReport& report) {
  if (options.names.empty()) return;
  const auto key = names_column(options, options.names_key, {options.columns.item, "item_id"}, 0);
  const auto value =
      names_column(options, options.names_value, {"name", "title", "movie_title"}, 1);
  std::unordered_map<std::string, std::string> names;
  for (auto& [raw_id, name] : read_names(options.names, key, value, {})) {
    names.emplace(std::move(raw_id), std::move(name));
  }
  for (Item& item : items.items) {
    auto found = names.find(item.raw_id);
    if (found == names.end() || found->second.empty()) continue;
    item.name = found->second;
    ++report.num_named_items;
  }
  if (report.num_named_items == 0) {
    fail<FileError>("prepare",
                    "no item is named in {}: its column '{}' holds none of them; try "
                    "--names-key",
                    options.names.string(), key);
  }
}

/// Scales of continuous columns. Throws where they differ from those in `ids_from`, if that is
/// given.
Scales scales_of(const Events& events, const fs::path& ids_from) {
  Scales out;
  for (const auto& feature : events.features) out.add(feature.spec.column(), feature.spec.scale);
  if (ids_from.empty()) return out;
  const auto earlier = Scales::load(ids_from / kScalesFile);
  for (const auto& feature : events.features) {
    out.check_alike(feature.spec.column(), earlier, ids_from.string());
  }
  return out;
}

/// Vocabulary whose ids are to be kept; empty without `ids_from`.
ItemNames ids_to_keep(const SessionOptions& options, const std::string& name) {
  if (options.ids_from.empty()) return {};
  return ItemNames::load(options.ids_from / (name + ".parquet"));
}

formats::Schema make_schema(const SessionOptions& options, const Material& material) {
  SchemaBuilder builder(options.min_length, options.max_length + options.context);
  builder.add_user(material.order.num_users);
  builder.add_item(material.items.size());
  for (size_t f = 0; f < material.events.features.size(); ++f) {
    const EventFeature& feature = material.events.features[f];
    if (feature.spec.kind == FeatureKind::Categorical) {
      builder.add_categorical(feature.spec, material.categories[f].size());
      continue;
    }
    float low = std::numeric_limits<float>::max();
    float high = std::numeric_limits<float>::lowest();
    const auto take = [&](float value) {
      low = std::min(low, value);
      high = std::max(high, value);
    };
    if (feature.spec.of_session) {
      for (const auto& session : material.order.sessions) take(material.value_of(session, feature));
    } else {
      for (int64_t event : material.order.events) take(feature.values[static_cast<size_t>(event)]);
    }
    builder.add_continuous(feature.spec, low, high);
  }
  if (material.keep_time) builder.add_time(kTimeColumn);
  return builder.schema();
}

/// Warns where windows without events lie between others for longer than a year: one event with a
/// wrong time numbers all windows anew.
void warn_of_stray_windows(const Events& events, const SessionOrder& order,
                           const SessionOptions& options, SessionReport& report) {
  std::map<int64_t, const Session*> of_window;
  for (const Session& session : order.sessions) of_window.emplace(session.window, &session);
  const Session* before = nullptr;
  for (const auto& [window, session] : of_window) {
    if (before != nullptr && (window - before->window) * options.window_days > 365) {
      const auto told = [&](const Session& some) {
        const int64_t event = order.events[static_cast<size_t>(some.begin)];
        return fmt::format("event {} at {:.15g} seconds after 1970", event + 1,
                           events.times.front().seconds(event));
      };
      report.warnings.push_back(fmt::format(
          "between window {} ({}) and window {} ({}) there are {} days without an event; if one of "
          "the times is wrong, mend it or drop the event: all windows are counted from the first",
          before->window, told(*before), window, told(*session),
          (window - before->window) * options.window_days));
    }
    before = session;
  }
}

}  // namespace

SessionReport make_sessions(const SessionOptions& given, const ProgressFn& progress) {
  check_options(given);
  SessionOptions options = given;
  const TimeDelta time_delta(options);
  Events events = read_events(options.inputs, options.columns, options.table, progress);
  SessionReport report;
  options.items.has_other_uses = !options.item_tower.empty();
  const SessionItemTower tower(options);
  for (const bool of_users : {false, true}) {
    auto joined = join_features(of_users ? options.users : options.items, of_users, events);
    if (!joined.table.empty()) report.joined.push_back(std::move(joined));
  }
  if (options.gap_seconds > 0) check_times(events, "--session gap", "compares");
  if (options.drop_duplicates && events.times.empty()) {
    fail<UsageError>("prepare", "--drop-duplicates compares times; got --time none");
  }
  if (options.window_days > 0 && events.times.empty()) {
    fail<UsageError>("prepare", "--windows needs times; got --time none");
  }
  if (counts_seconds(options, time_delta.is_wanted()) && !events.times.empty()) check_unit(events);
  check_units_of_files(events);
  if (options.keep_time) check_times(events, "--keep-time", "keeps");
  if (options.validation.kind == Validation::Dates) {
    check_times(events, "--validation date", "compares");
  }
  SessionOrder order =
      order_sessions(events, options.gap_seconds, DayWindows(events, options.window_days));
  report.warnings = events.warnings;
  report.warnings.insert(report.warnings.end(), tower.warnings().begin(), tower.warnings().end());
  if (options.window_days > 0) warn_of_stray_windows(events, order, options, report);
  report.num_dropped_events = events.num_events - static_cast<int64_t>(order.events.size());
  report.num_duplicates = find_duplicates(events, order, options.drop_duplicates);
  report.num_events = static_cast<int64_t>(order.events.size());
  hold_out(options, events, order);
  time_delta.add(events, order);

  report.times = span_of(events, order);
  check_unit_of_earlier(report.times, options.ids_from);
  report.num_users = order.num_users;
  report.num_sessions = static_cast<int64_t>(order.sessions.size());
  ColumnIds items = make_vocabulary(events.item, order, ids_to_keep(options, "items"));
  report.num_eventless_items = tower.add_items(items.items);
  report.num_items = items.size();
  report.num_new_items = items.size() - ids_to_keep(options, "items").size();
  add_names(options, items, report);
  std::vector<ColumnIds> categories(events.features.size());
  for (size_t f = 0; f < categories.size(); ++f) {
    if (events.features[f].spec.kind == FeatureKind::Categorical) {
      const auto& feature = events.features[f];
      categories[f] =
          make_vocabulary(feature.codes, order, ids_to_keep(options, feature.spec.name));
    }
  }

  const auto scales = scales_of(events, options.ids_from);
  std::vector<std::string> stale = earlier_files(options.output);
  if (options.window_days > 0) stale.insert(stale.end(), {"train.parquet", "valid.parquet"});
  remove_unfinished(options.output, {"train.", "valid.", "test.", "items.", "users.", "seen.",
                                     "sessions.", "schema.", "item_features."});
  const People people(events, order, options.ids_from);
  report.num_repeats = people.count_repeats(order, events.item, items);
  for (const auto& warning :
       {warn_of_known_events(events, order, items, people, options.ids_from),
        warn_of_early_events(events, order, items, people, options.ids_from)}) {
    if (!warning.empty()) report.warnings.push_back(warning);
  }
  decide_to_exclude(options, report);
  check_context(options, events);
  if (auto warning = warn_of_targets(options); !warning.empty()) {
    report.warnings.push_back(std::move(warning));
  }
  const Material material{
      events,          order,
      items,           categories,
      people,          options.keep_time,
      options.context, options.context > 0 ? places_that_train(order) : std::vector<bool>()};
  const auto columns = list_columns_of(events, options.keep_time, options.context > 0);
  auto inputs = options.inputs;
  for (const auto& file : {options.names, options.items.file, options.users.file}) {
    inputs.push_back(file);
  }
  FileSet files(options.output, std::move(inputs));
  count_gaps(material, report);
  report.num_past_users = people.num_past();
  std::vector<bool> shown(static_cast<size_t>(items.size()) + 1, false);
  std::set<int64_t> windows;
  for (const Session& session : order.sessions) windows.insert(session.window);
  for (const int64_t window : windows) {
    const auto folder = window == 0 ? "" : window_folder(window) + "/";
    SessionWriter train = files.sessions(folder + "train.parquet", columns, options.row_group_size);
    write_train(options, material, window, train, shown, report);
    const auto write_split = [&](const char* name, bool is_test, TargetRows& rows) {
      SessionWriter writer = files.sessions(folder + name, columns, options.row_group_size);
      write_targets(options, material, window, is_test, writer, shown, rows);
    };
    if (options.validation.has_valid()) write_split("valid.parquet", false, report.valid);
    if (options.validation.has_test()) write_split("test.parquet", true, report.test);
  }
  finish_train(options, report);
  check_splits(options, report);
  const fs::path items_file = files.add("items.parquet");
  write_items(items_file, files.last(), items.items);
  const fs::path users_file = files.add(kUsersFile);
  write_items(users_file, files.last(), people.users());
  SessionWriter seen = files.sessions(kSeenFile, {{formats::kItemColumn, false}}, kSeenRows);
  people.write(order, events.item, items, seen);
  Json decisions{{"exclude_seen", report.exclude_seen},
                 {"events", report.num_events},
                 {"repeats", report.num_repeats},
                 {"validation", options.validation.text}};
  auto last = last_time_in(options.ids_from);
  if (report.times) last = std::max(last.value_or(report.times->last), report.times->last);
  if (last) decisions["last_time"] = *last;
  write_file(files.add(kDecisionsFile), decisions.dump() + "\n");
  for (size_t f = 0; f < categories.size(); ++f) {
    if (events.features[f].spec.kind != FeatureKind::Categorical) continue;
    const fs::path file = files.add(events.features[f].spec.name + ".parquet");
    write_items(file, files.last(), categories[f].items);
  }
  if (!scales.empty()) write_file(files.add(kScalesFile), scales.to_json());
  report.num_tower_items = tower.write(items.items, files);
  write_file(files.add("schema.json"), make_schema(options, material).to_json());
  report.files = files.commit(stale);
  return report;
}

}  // namespace convoy::prepare
