#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace convoy {

/// Interactions, as a CSV of user_id, item_id, timestamp and price has them; "" = empty.
struct LogEvent {
  std::string user, item;
  std::optional<int> time;
  std::string price = "1";
};

inline std::string csv_of(const std::vector<LogEvent>& log) {
  std::string out = "user_id,item_id,timestamp,price\n";
  for (const auto& [user, item, time, price] : log) {
    out += fmt::format("{},{},{},{}\n", user, item, time ? std::to_string(*time) : "", price);
  }
  return out;
}

using Items = std::vector<std::string>;

/// Rows of sessions, and the items that whoever they are of had at their ends.
struct LogRow {
  std::string user;
  Items items, had;
};

/// Counts and rows of a log by plain loops, which know nothing of how the program counts.
struct LogTruth {
  int64_t events = 0, dropped = 0, users = 0, single = 0, repeats = 0, untimed = 0, ties = 0;
  int64_t unpriced = 0, short_rows = 0, train_events = 0, unread = 0, cut_valid = 0, unseen = 0;
  std::set<std::string> items, shown;
  std::map<std::string, Items> histories;
  std::vector<LogRow> train, valid;

  /// `past`: histories that these go on from. `day`: sessions end at the end of days of so many
  /// seconds, and rows are of this one (1, 2, ...), all of whose events train; 0: no windows.
  LogTruth(const std::vector<LogEvent>& log, size_t max_length,
           const std::map<std::string, Items>& past = {}, int day = 0) {
    std::map<std::string, std::vector<LogEvent>> by_user;
    for (const auto& event : log) {
      if (event.user.empty() || event.item.empty() || event.item == "NA") {
        ++dropped;
        continue;
      }
      ++events;
      items.insert(event.item);
      untimed += !event.time;
      unpriced += event.price.empty();
      by_user[event.user].push_back(event);
    }
    users = std::ssize(by_user);
    histories = past;
    for (auto& [user, own] : by_user) {
      std::stable_sort(own.begin(), own.end(), [](const auto& a, const auto& b) {
        return a.time.value_or(INT_MAX) < b.time.value_or(INT_MAX);
      });
      auto& had = histories[user];
      Items session;
      for (size_t i = 0; i < own.size(); ++i) {
        repeats += std::count(had.begin(), had.end(), own[i].item) > 0;
        ties += i > 0 && own[i].time && own[i].time == own[i - 1].time;
        had.push_back(own[i].item);
        session.push_back(own[i].item);
        const auto day_of = [](const LogEvent& event) { return *event.time / kDay + 1; };
        const bool ends = i + 1 == own.size() || (day > 0 && day_of(own[i]) < day_of(own[i + 1]));
        if (!ends) continue;
        if (day == 0 || day_of(own[i]) == day) add(user, session, had, max_length, day == 0);
        session.clear();
      }
    }
    for (const auto& row : train) {
      for (const auto& item : row.items) shown.insert(item);
    }
    for (const auto& row : valid) unseen += !shown.contains(row.items.back());
  }

  /// Items that rows of `train` show, of which the last `length` items are read.
  std::set<std::string> seen_by(size_t length) const {
    std::set<std::string> out;
    for (const auto& row : train) {
      const auto read = std::min(length, row.items.size());
      out.insert(row.items.end() - static_cast<std::ptrdiff_t>(read), row.items.end());
    }
    return out;
  }

  static constexpr int kDay = 86400;

 private:
  void add(const std::string& user, const Items& session, const Items& had, size_t max_length,
           bool leaves_last_out) {
    single += session.size() == 1;
    const size_t end = session.size() - (leaves_last_out ? 1 : 0);
    train_events += static_cast<int64_t>(end);
    const auto at = [&](size_t i) { return session.begin() + static_cast<std::ptrdiff_t>(i); };
    for (size_t begin = 0; begin < end; begin += max_length) {
      const auto stop = std::min(begin + max_length, end);
      if (stop - begin == 1) {
        ++short_rows;
        ++unread;
      } else {
        train.push_back({user, Items(at(begin), at(stop)), {}});
      }
    }
    if (session.size() < 2) return;
    const auto length = std::min(max_length, session.size());
    cut_valid += length < session.size();
    valid.push_back({user, Items(at(session.size() - length), at(session.size())), had});
  }
};

/// Share of rows whose target is among the `k` most frequent items, by plain loops over all pairs.
/// `known`: items that are recommended; `ids`: ties are broken by the smaller.
inline double popular_recall(const std::vector<LogRow>& valid,
                             const std::map<std::string, int64_t>& counts,
                             const std::set<std::string>& known,
                             const std::map<std::string, int64_t>& ids, bool excludes, int64_t k) {
  const auto before = [&](const std::string& a, const std::string& b) {
    const auto of = [&](const std::string& item) {
      const auto found = counts.find(item);
      return found == counts.end() ? 0 : found->second;
    };
    return of(a) != of(b) ? of(a) > of(b) : ids.at(a) < ids.at(b);
  };
  int64_t hits = 0;
  for (const auto& row : valid) {
    const auto& target = row.items.back();
    const std::set<std::string> had(row.had.begin(), row.had.end() - 1);
    if (!known.contains(target) || (excludes && had.contains(target))) continue;
    int64_t rank = 1;
    for (const auto& item : known) {
      rank += (!excludes || !had.contains(item)) && before(item, target);
    }
    hits += rank <= k;
  }
  return static_cast<double>(hits) / static_cast<double>(valid.size());
}

/// Adds the occurrences of items in rows.
inline void count_in(const std::vector<LogRow>& rows, std::map<std::string, int64_t>& counts) {
  for (const auto& row : rows) {
    for (const auto& item : row.items) ++counts[item];
  }
}

/// Counts of what a model makes of rows, by plain loops.
struct RowsTruth {
  int64_t unknown_targets = 0, seen_targets = 0, empty_rows = 0, unknown_items = 0;
  int64_t partial_rows = 0, cut_rows = 0, cut_items = 0, num_items = 0, recommended = 0;

  /// `known`: items of the model; `length`: of what it reads. `evaluates`: the last item is the
  /// target.
  RowsTruth(const std::vector<LogRow>& rows, const std::set<std::string>& known, size_t length,
            bool evaluates, bool excludes) {
    for (const auto& row : rows) {
      const auto& target = row.items.back();
      const auto inputs = row.items.size() - (evaluates ? 1 : 0);
      size_t unknown = 0;
      for (size_t i = 0; i < inputs; ++i) unknown += !known.contains(row.items[i]);
      unknown_items += static_cast<int64_t>(unknown);
      partial_rows += unknown > 0;
      empty_rows += unknown == inputs;
      unknown_targets += evaluates && !known.contains(target);
      const auto read = inputs - unknown + (evaluates ? 1 : 0);
      cut_rows += read > length;
      cut_items += static_cast<int64_t>(std::max(read, length) - length);
      num_items += std::ssize(row.items);
      const auto before = std::count(row.had.begin(), row.had.end() - 1, target);
      seen_targets += evaluates && excludes && before > 0;
      recommended += unknown == inputs ? 0 : candidates(known, row.had, excludes);
    }
  }

  /// Items that may be recommended to whoever had `had`.
  static int64_t candidates(const std::set<std::string>& known, const Items& had, bool excludes) {
    auto left = known;
    for (const auto& item : had) {
      if (excludes) left.erase(item);
    }
    return std::ssize(left);
  }
};

}  // namespace convoy
