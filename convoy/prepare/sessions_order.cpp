#include "convoy/prepare/sessions_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "convoy/base/error.h"

namespace convoy::prepare {
namespace {

bool earlier(const Events& events, int64_t a, int64_t b) {
  for (const Times& times : events.times) {
    const int order = times.compare(a, b);
    if (order != 0) return order < 0;
  }
  return false;
}

}  // namespace

DayWindows::DayWindows(const Events& events, int64_t days) : events_(events), days_(days) {
  if (days_ == 0) return;
  std::optional<int64_t> first;
  for (int64_t event = 0; event < events.num_events; ++event) {
    if (!is_whole(events, static_cast<size_t>(event))) continue;
    if (events.times.front().missing(event)) {
      fail<FileError>("prepare",
                      "event {} has no time; expected one for each with --windows; try without "
                      "--windows",
                      event + 1);
    }
    const int64_t day = day_of(event);
    first = first ? std::min(*first, day) : day;
  }
  first_day_ = first.value_or(0);
}

int64_t DayWindows::of(int64_t event) const {
  return days_ == 0 ? 0 : 1 + (day_of(event) - first_day_) / days_;
}

int64_t DayWindows::day_of(int64_t event) const {
  constexpr double kSecondsOfADay = 86400;
  return static_cast<int64_t>(std::floor(events_.times.front().seconds(event) / kSecondsOfADay));
}

bool is_whole(const Events& events, size_t event) {
  return events.user.codes[event] >= 0 && events.item.codes[event] >= 0;
}

SessionOrder order_sessions(const Events& events, double gap_seconds, const DayWindows& windows) {
  SessionOrder out;
  const std::vector<int32_t> ranks = raw_ranks(events.user.values);
  auto user_of = [&](size_t e) {
    return static_cast<size_t>(ranks[static_cast<size_t>(events.user.codes[e])]);
  };

  // Counting sort by user keeps the order of the files inside each.
  const auto num_events = static_cast<size_t>(events.num_events);
  std::vector<int64_t> starts(ranks.size() + 1, 0);
  for (size_t e = 0; e < num_events; ++e) {
    if (is_whole(events, e)) ++starts[user_of(e) + 1];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  out.events.resize(static_cast<size_t>(starts.back()));
  std::vector<int64_t> next(starts.begin(), starts.end() - 1);
  for (size_t e = 0; e < num_events; ++e) {
    if (is_whole(events, e))
      out.events[static_cast<size_t>(next[user_of(e)]++)] = static_cast<int64_t>(e);
  }

  for (size_t user = 0; user < ranks.size(); ++user) {
    const int64_t begin = starts[user];
    const int64_t end = starts[user + 1];
    if (begin == end) continue;
    ++out.num_users;
    std::stable_sort(out.events.begin() + begin, out.events.begin() + end,
                     [&](int64_t a, int64_t b) { return earlier(events, a, b); });
    int64_t first = begin;
    const auto event = [&](int64_t i) { return out.events[static_cast<size_t>(i)]; };
    for (int64_t i = begin + 1; i < end; ++i) {
      const bool pauses =
          gap_seconds > 0 && events.times.front().between(event(i - 1), event(i)) > gap_seconds;
      if (!pauses && windows.of(event(i - 1)) == windows.of(event(i))) continue;
      out.sessions.push_back({out.num_users, first, i, windows.of(event(first))});
      first = i;
    }
    out.sessions.push_back({out.num_users, first, end, windows.of(event(first))});
  }
  return out;
}

int64_t find_duplicates(const Events& events, SessionOrder& order, bool take_out) {
  if (events.times.empty()) return 0;
  int64_t found = 0;
  std::vector<int64_t> kept;
  for (Session& session : order.sessions) {
    const auto begin = static_cast<int64_t>(kept.size());
    std::set<int32_t> at_this_time;
    for (int64_t i = session.begin; i < session.end; ++i) {
      const int64_t event = order.events[static_cast<size_t>(i)];
      if (i > session.begin && earlier(events, order.events[static_cast<size_t>(i - 1)], event)) {
        at_this_time.clear();
      }
      const bool fresh = at_this_time.insert(events.item.codes[static_cast<size_t>(event)]).second;
      if (fresh) kept.push_back(event);
      found += !fresh;
    }
    if (take_out) {
      session.begin = begin;
      session.end = static_cast<int64_t>(kept.size());
    }
  }
  if (take_out) order.events = std::move(kept);
  return found;
}

TimeCounts count_times(const Events& events, const SessionOrder& order) {
  TimeCounts out;
  if (events.times.empty()) return out;
  out.missing_later.assign(events.times.size() - 1, 0);
  int64_t before = -1, user = 0;
  for (const Session& session : order.sessions) {
    if (session.user_id != user) before = -1;
    user = session.user_id;
    for (int64_t i = session.begin; i < session.end; ++i) {
      const int64_t event = order.events[static_cast<size_t>(i)];
      const bool missing = events.times.front().missing(event);
      out.missing += missing;
      for (size_t t = 1; t < events.times.size() && !missing; ++t) {
        out.missing_later[t - 1] += events.times[t].missing(event);
      }
      out.ties += !missing && before >= 0 && !earlier(events, before, event);
      before = event;
    }
  }
  return out;
}

std::vector<Item> users_of(const Codes& users, const SessionOrder& order) {
  std::vector<Item> out;
  for (const Session& session : order.sessions) {
    if (out.empty() || out.back().id != session.user_id) {
      const auto event = static_cast<size_t>(order.events[static_cast<size_t>(session.begin)]);
      out.push_back(
          {session.user_id, users.values[static_cast<size_t>(users.codes[event])], 0, ""});
    }
    out.back().count += session.end - session.begin;
  }
  return out;
}

ColumnIds make_vocabulary(const Codes& column, const SessionOrder& order,
                          const ItemNames& earlier) {
  const size_t num_values = column.values.size();
  std::vector<int64_t> counts(num_values, 0);
  std::vector<int64_t> first_windows(num_values, std::numeric_limits<int64_t>::max());
  for (const Session& session : order.sessions) {
    for (int64_t i = session.begin; i < session.end; ++i) {
      const int32_t code = column.codes[static_cast<size_t>(order.events[static_cast<size_t>(i)])];
      if (code < 0) continue;
      auto& first = first_windows[static_cast<size_t>(code)];
      first = std::min(first, session.window);
    }
  }
  std::vector<int64_t> first_counts(num_values, 0);  // in the first window
  std::vector<bool> present(num_values, false);
  for (const Session& session : order.sessions) {
    for (int64_t i = session.begin; i < session.end; ++i) {
      const int32_t code = column.codes[static_cast<size_t>(order.events[static_cast<size_t>(i)])];
      if (code < 0) continue;
      present[static_cast<size_t>(code)] = true;
      if (i >= session.train_end) continue;
      ++counts[static_cast<size_t>(code)];
      first_counts[static_cast<size_t>(code)] +=
          session.window == first_windows[static_cast<size_t>(code)];
    }
  }
  ColumnIds out;
  out.ids.assign(num_values, 0);
  std::unordered_map<std::string_view, size_t> known;
  if (earlier.size() > 0) {
    for (size_t code = 0; code < num_values; ++code) known.emplace(column.values[code], code);
  }
  for (int64_t id = 1; id <= earlier.size(); ++id) {
    out.items.push_back({id, earlier.raw_id(id), 0, earlier.name(id)});
    const auto code = known.find(out.items.back().raw_id);
    if (code == known.end()) continue;
    out.ids[code->second] = id;
    out.items.back().count = counts[code->second];
    present[code->second] = false;
  }
  const std::vector<int32_t> ranks = raw_ranks(column.values);
  std::vector<size_t> codes;
  for (size_t code = 0; code < num_values; ++code) {
    if (present[code]) codes.push_back(code);
  }
  std::sort(codes.begin(), codes.end(), [&](size_t a, size_t b) {
    if (first_windows[a] != first_windows[b]) return first_windows[a] < first_windows[b];
    if (first_counts[a] != first_counts[b]) return first_counts[a] > first_counts[b];
    return ranks[a] < ranks[b];
  });
  for (size_t code : codes) {
    const int64_t id = out.size() + 1;
    out.ids[code] = id;
    out.items.push_back({id, column.values[code], counts[code], ""});
  }
  return out;
}

}  // namespace convoy::prepare
