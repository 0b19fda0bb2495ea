#include "convoy/prepare/joined_features.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::prepare {

namespace {

/// Options and words in messages for one kind of table.
struct Kind {
  const char *flag, *key, *features, *what;
  std::vector<std::string> usual;
};

const Kind& kind_of(bool of_users) {
  static const Kind items{"--items",
                          "--items-key",
                          "--item-features",
                          "item",
                          {"item_id", "item", "itemId", "movieId", "product_id", "itemid"}};
  static const Kind users{"--users",
                          "--users-key",
                          "--user-features",
                          "user",
                          {"user_id", "user", "userId", "customer_id", "visitorid"}};
  return of_users ? users : items;
}

std::string key_of(const FeatureTable& table, const Kind& kind) {
  const auto columns = list_columns(table.file, {});
  const auto has = [&](const std::string& name) { return std::ranges::count(columns, name) > 0; };
  if (!table.key.empty()) {
    if (has(table.key)) return table.key;
    fail<FileError>("prepare", "{} has no column '{}'; got {}; try {} COLUMN", table.file.string(),
                    table.key, join(columns), kind.key);
  }
  for (const auto& name : kind.usual) {
    if (has(name)) return name;
  }
  fail<FileError>("prepare", "{} has no column of {} ids by a usual name; got {}; try {} COLUMN",
                  table.file.string(), kind.what, join(columns), kind.key);
}

/// Rows of the table by the code of an id; -1 = none.
std::vector<int64_t> rows_of(const Codes& ids, const Codes& keys, const std::string& file,
                             const char* what) {
  std::unordered_map<std::string_view, int64_t> rows;
  for (size_t row = 0; row < keys.codes.size(); ++row) {
    if (keys.codes[row] < 0) continue;
    const auto& id = keys.values[static_cast<size_t>(keys.codes[row])];
    if (rows.emplace(id, static_cast<int64_t>(row)).second) continue;
    fail<FileError>("prepare", "{} has two rows of {} '{}'; expected one of each", file, what, id);
  }
  std::vector<int64_t> out;
  for (const auto& id : ids.values) {
    const auto found = rows.find(id);
    out.push_back(found == rows.end() ? -1 : found->second);
  }
  return out;
}

}  // namespace

JoinReport join_features(const FeatureTable& table, bool of_users, Events& events) {
  const auto& kind = kind_of(of_users);
  if (table.file.empty()) {
    if (!table.features.empty() || !table.key.empty()) {
      fail<UsageError>("prepare", "{} and {} have no effect without a table; try {} FILE", kind.key,
                       kind.features, kind.flag);
    }
    return {};
  }
  if (table.features.empty() && table.has_other_uses) return {};
  if (table.features.empty()) {
    fail<UsageError>("prepare", "{} {} joins nothing; try {} with some of {}", kind.flag,
                     table.file.string(), kind.features, join(list_columns(table.file, {})));
  }
  const auto key = key_of(table, kind);
  EventColumns columns{.user = key, .item = key, .time = {"none"}, .features = table.features};
  for (auto& spec : columns.features) {
    const auto same = [&](const EventFeature& feature) { return feature.spec.name == spec.name; };
    if (std::ranges::any_of(events.features, same)) {
      fail<UsageError>("prepare",
                       "{} has '{}', which is a feature of the events, too; try one of "
                       "them",
                       kind.features, spec.name);
    }
    if (spec.of_session) {
      fail<UsageError>("prepare",
                       "{} has a session's value of several for '{}', of which a table has one; "
                       "expected name[:continuous|categorical][:log1p|/N|*N]",
                       kind.features, spec.name);
    }
    if (of_users) spec.of_session = OfSession::First;
  }
  Events rows = read_events({table.file}, columns, {});
  const auto& ids = of_users ? events.user : events.item;
  const auto row_of = rows_of(ids, rows.item, table.file.string(), kind.what);
  JoinReport out{table.file.string(), std::ssize(row_of), std::ranges::count(row_of, -1)};
  if (out.num_missing == out.num_ids) {
    fail<FileError>("prepare",
                    "column '{}' of {} has none of the {} ids of the events: '{}', but the events "
                    "'{}'; try {} COLUMN, or ids written alike",
                    key, table.file.string(), kind.what,
                    rows.item.values.empty() ? "" : rows.item.values.front(),
                    ids.values.empty() ? "" : ids.values.front(), kind.key);
  }
  for (auto& own : rows.features) {
    EventFeature feature{own.spec, {}, {}, {}};
    const bool categorical = own.spec.kind == FeatureKind::Categorical;
    for (const int32_t code : ids.codes) {
      const int64_t row = code < 0 ? -1 : row_of[static_cast<size_t>(code)];
      const bool missing = row < 0 || own.is_missing(static_cast<size_t>(row));
      if (categorical) {
        feature.codes.codes.push_back(missing ? -1 : own.codes.codes[static_cast<size_t>(row)]);
      } else {
        feature.values.push_back(missing ? 0 : own.values[static_cast<size_t>(row)]);
        feature.missing.push_back(missing);
      }
    }
    feature.codes.values = std::move(own.codes.values);
    events.features.push_back(std::move(feature));
  }
  for (auto& warning : rows.warnings) events.warnings.push_back(std::move(warning));
  return out;
}

}  // namespace convoy::prepare
