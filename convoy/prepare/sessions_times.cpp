#include "convoy/prepare/sessions_times.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/prepare/seen.h"

namespace convoy::prepare {

namespace fs = std::filesystem;

namespace {

void include_time(std::optional<TimeSpan>& span, double seconds) {
  if (!span) span = TimeSpan{seconds, seconds};
  span->first = std::min(span->first, seconds);
  span->last = std::max(span->last, seconds);
}

/// Whether times that begin at `begin` are hardly in the same unit as those that end at `end`.
bool differ_in_unit(double end, double begin) {
  constexpr double kRecent = 1e9;  // seconds, in 2001
  constexpr double kTimes = 100;   // units differ by 1000, and not all files are of one year
  return end > 0 && begin >= kRecent && begin > kTimes * end;
}

/// Calls `f(event, known)` for events not later than `last` of users with lists; `known`: whether
/// the user's list has the item.
template <class F>
void each_not_later(const Events& events, const SessionOrder& order, const ColumnIds& items,
                    const People& people, double last, F&& use) {
  const auto& times = events.times.front();
  int64_t user = 0;
  std::unordered_set<int64_t> had;
  for (const Session& session : order.sessions) {
    if (session.user_id != user) {
      const auto past = people.past_of(session.user_id);
      had = {past.begin(), past.end()};
      user = session.user_id;
    }
    for (int64_t i = session.begin; i < session.end && !had.empty(); ++i) {
      const int64_t event = order.events[static_cast<size_t>(i)];
      if (times.missing(event) || times.seconds(event) > last) continue;
      use(event, had.contains(items.id(events.item.codes[static_cast<size_t>(event)])));
    }
  }
}

}  // namespace

void check_unit(const Events& events) {
  constexpr double kFar = 1e11;  // seconds, in the year 5138
  const auto& times = events.times.front();
  for (int64_t event = 0; event < events.num_events; ++event) {
    if (times.missing(event) || times.seconds(event) < kFar) continue;
    fail<FileError>(
        "prepare",
        "event {} is {:.15g} seconds after 1970: its time may be in a smaller unit; try "
        "--time-unit ms, us or ns",
        event + 1, times.seconds(event));
  }
}

void check_units_of_files(const Events& events) {
  if (events.times.empty()) return;
  const auto& times = events.times.front();
  struct Span {
    const EventFile* file = nullptr;
    TimeSpan span;
  };
  std::optional<Span> earliest, latest;
  for (size_t i = 0; i < events.files.size(); ++i) {
    const auto& file = events.files[i];
    const bool is_last = i + 1 == events.files.size();
    const int64_t end = is_last ? events.num_events : events.files[i + 1].first_event;
    std::optional<TimeSpan> span;
    for (int64_t event = file.first_event; event < end; ++event) {
      if (!times.missing(event)) include_time(span, times.seconds(event));
    }
    if (!span) continue;
    if (!earliest || span->last < earliest->span.last) earliest = Span{&file, *span};
    if (!latest || span->first > latest->span.first) latest = Span{&file, *span};
  }
  if (!earliest || !differ_in_unit(earliest->span.last, latest->span.first)) return;
  fail<FileError>("prepare",
                  "the times of {} end {:.15g} seconds after 1970, those of {} begin {:.15g} "
                  "seconds after it; expected one unit, or instants, in all files; try to write "
                  "the times of both alike, and --time-unit for numbers that are no seconds",
                  earliest->file->name, earliest->span.last, latest->file->name,
                  latest->span.first);
}

std::optional<TimeSpan> span_of(const Events& events, const SessionOrder& order) {
  std::optional<TimeSpan> out;
  if (events.times.empty()) return out;
  const auto& times = events.times.front();
  for (const int64_t event : order.events) {
    if (!times.missing(event)) include_time(out, times.seconds(event));
  }
  return out;
}

std::optional<double> last_time_in(const fs::path& folder) {
  const auto file = folder / kDecisionsFile;
  if (folder.empty() || !fs::exists(file)) return std::nullopt;
  const auto json = parse_json(read_file(file), file.string());
  return json.is_object() && json.contains("last_time") ? finite_number(json.at("last_time"))
                                                        : std::nullopt;
}

std::string warn_of_known_events(const Events& events, const SessionOrder& order,
                                 const ColumnIds& items, const People& people,
                                 const fs::path& earlier) {
  const auto last = last_time_in(earlier);
  if (!last || events.times.empty()) return "";
  int64_t again = 0;
  each_not_later(events, order, items, people, *last,
                 [&](int64_t, bool has_item) { again += has_item; });
  if (again == 0) return "";
  return fmt::format(
      "{} of {} events are not later than {}, the last time in {}, whose histories have their "
      "items: where these are the same events, histories hold them twice, and targets count as had "
      "before; try later events alone",
      human_count(again), human_count(std::ssize(order.events)), utc_text(*last), earlier.string());
}

std::string warn_of_early_events(const Events& events, const SessionOrder& order,
                                 const ColumnIds& items, const People& people,
                                 const fs::path& earlier) {
  const auto last = last_time_in(earlier);
  if (!last || events.times.empty()) return "";
  int64_t early = 0;
  each_not_later(events, order, items, people, *last, [&](int64_t event, bool has_item) {
    early += !has_item && events.times.front().seconds(event) < *last;
  });
  if (early == 0) return "";
  return fmt::format(
      "{} of {} events are before {}, the last time in {}, and are put behind the histories of "
      "their users there, as if they came later; try later events alone, or all events together",
      human_count(early), human_count(std::ssize(order.events)), utc_text(*last), earlier.string());
}

void check_unit_of_earlier(const std::optional<TimeSpan>& times, const fs::path& earlier) {
  const auto last = last_time_in(earlier);
  if (!last || !times) return;
  constexpr double kOld = 1e8;  // seconds, in 1973: fewer may be numbers of a log without dates
  const bool later = differ_in_unit(*last, times->first);
  if (!later && (times->last < kOld || !differ_in_unit(times->last, *last))) return;
  fail<FileError>("prepare",
                  "the times of these events {} {:.15g} seconds after 1970, the last time in {} is "
                  "{:.15g} seconds after it; expected one unit; try --time-unit for numbers that "
                  "are no seconds",
                  later ? "begin" : "end", later ? times->first : times->last, earlier.string(),
                  *last);
}

}  // namespace convoy::prepare
