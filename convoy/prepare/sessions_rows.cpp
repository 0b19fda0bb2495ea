#include "convoy/prepare/sessions_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::prepare {

namespace {

/// Whether missing values are skipped, as in means and extremes; in a sum they count as 0.
bool passes_over_missing(const EventFeature& feature) {
  const auto of = feature.spec.of_session;
  return of == OfSession::Mean || of == OfSession::Min || of == OfSession::Max;
}

}  // namespace

float Material::value_of(const Session& session, const EventFeature& feature) const {
  std::vector<float> values;
  for (int64_t i = session.begin; i < session.end; ++i) {
    if (passes_over_missing(feature) && feature.is_missing(event_at(i))) continue;
    values.push_back(feature.values[event_at(i)]);
  }
  if (values.empty()) values.push_back(0);
  const auto value = value_of_session(*feature.spec.of_session, values);
  return feature.spec.scale.apply(value, feature.spec.name);
}

void Material::write_session_values(SessionWriter& writer, const Session& session) const {
  for (size_t f = 0; f < events.features.size(); ++f) {
    const EventFeature& feature = events.features[f];
    if (!feature.spec.of_session) continue;
    if (feature.spec.kind == FeatureKind::Continuous) {
      writer.floats(f + 1).push_back(value_of(session, feature));
      continue;
    }
    const bool first = feature.spec.of_session == OfSession::First;
    const auto event = event_at(first ? session.begin : session.end - 1);
    writer.ints(f + 1).push_back(categories[f].id(feature.codes.codes[event]));
  }
}

RowContext Material::context_of(const Session& session, int64_t begin, bool of_training) const {
  RowContext out;
  if (context == 0) return out;
  const int64_t first = people.first_place(session.user_id);
  for (int64_t i = begin; i > first && std::ssize(out.places) < context; --i) {
    if (!of_training || trains[static_cast<size_t>(i - 1)]) out.places.push_back(i - 1);
  }
  std::ranges::reverse(out.places);
  const auto past = people.past_of(session.user_id);
  const auto room = static_cast<size_t>(context - std::ssize(out.places));
  out.past = past.last(std::min(room, past.size()));
  return out;
}

void Material::write_event(SessionWriter& writer, int64_t place) const {
  const auto event = event_at(place);
  writer.ints(0).push_back(items.id(events.item.codes[event]));
  for (size_t f = 0; f < events.features.size(); ++f) {
    const EventFeature& feature = events.features[f];
    if (feature.spec.of_session) continue;
    if (feature.spec.kind == FeatureKind::Continuous) {
      writer.floats(f + 1).push_back(feature.values[event]);
    } else {
      writer.ints(f + 1).push_back(categories[f].id(feature.codes.codes[event]));
    }
  }
  if (keep_time) {
    const double seconds = events.times.front().seconds(static_cast<int64_t>(event));
    writer.ints(events.features.size() + 1).push_back(std::llround(seconds));
  }
}

void Material::write(SessionWriter& writer, const Session& session, int64_t begin, int64_t end,
                     const RowContext& before) const {
  write_session_values(writer, session);
  // Only the items of earlier events are known, as check_context() makes sure.
  writer.ints(0).insert(writer.ints(0).end(), before.past.begin(), before.past.end());
  for (const int64_t place : before.places) write_event(writer, place);
  for (int64_t place = begin; place < end; ++place) write_event(writer, place);
  const size_t last = events.features.size() + (keep_time ? 2 : 1);
  writer.ints(last).push_back(people.num_seen(session, end));
  if (context > 0) writer.ints(last + 1).push_back(before.size());
  writer.end_row(session.user_id);
}

namespace {

/// Bounds [first, last + 1) of the events of a history's rows, in its order.
std::vector<std::pair<int64_t, int64_t>> rows_of(const SessionOptions& options, int64_t begin,
                                                 int64_t end) {
  std::vector<std::pair<int64_t, int64_t>> out;
  if (options.rows == HistoryRows::Blocks) {
    for (; begin < end; begin += options.max_length) {
      out.emplace_back(begin, std::min(begin + options.max_length, end));
    }
    return out;
  }
  const int64_t stride = options.stride > 0 ? options.stride : options.max_length / 2;
  for (int64_t stop = end; stop > begin; stop -= stride) {
    const int64_t start = std::max(begin, stop - options.max_length);
    out.emplace_back(start, stop);
    if (start == begin || options.rows == HistoryRows::Last) break;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

void write_train(const SessionOptions& options, const Material& material, int64_t window,
                 SessionWriter& writer, std::vector<bool>& shown, SessionReport& report) {
  for (const Session& session : material.order.sessions) {
    if (session.window != window) continue;
    const int64_t end = session.train_end;
    int64_t read = session.begin, unread = 0;
    for (const auto& [begin, stop] : rows_of(options, session.begin, end)) {
      const auto before = material.context_of(session, begin, /*of_training=*/true);
      const int64_t length = before.size() + stop - begin;
      if (length < options.min_length) {
        ++report.num_short_rows;
        continue;
      }
      material.write(writer, session, begin, stop, before);
      report.num_context_rows += before.size() > 0;
      report.num_context_events += before.size();
      for (int64_t i = begin; length > 1 && i < stop; ++i) {
        shown[static_cast<size_t>(material.item_at(i))] = true;
      }
      unread += std::max<int64_t>(0, begin - read);
      read = std::max(read, stop);
    }
    report.num_train_events += end - session.begin;
    report.num_unread_events += unread + std::max<int64_t>(0, end - read);
    const bool alone = material.context_of(session, session.begin, false).size() == 0;
    const bool in_no_row = alone && (end == session.begin || options.min_length > 1);
    report.num_single_sessions += in_no_row && session.end - session.begin == 1;
  }
  report.num_train_rows += writer.num_rows();
  report.num_windows += window > 0 && writer.num_rows() > 0;
  report.mean_train_length += static_cast<double>(writer.num_values());  // their sum
  writer.close();
  report.num_train_groups += writer.num_row_groups();
}

namespace {

/// Text on the events that are held out, behind "no session has 2 events to train on".
std::string held_out_text(const SessionOptions& options) {
  const auto& validation = options.validation;
  if (validation.kind == Validation::None || options.window_days > 0) return "";
  return validation.kind == Validation::LastOut
             ? " beside its last one, which is for validation"
             : fmt::format(" beside those that --validation {} holds out", validation.text);
}

}  // namespace

void finish_train(const SessionOptions& options, SessionReport& report) {
  if (report.num_train_rows == 0) {
    fail<FileError>("prepare",
                    "no session has {} to train on{}; got {} of {}; try a smaller --min-length, "
                    "another --user, or --validation none",
                    plural(options.min_length, "event"), held_out_text(options),
                    plural(report.num_events, "event"), plural(report.num_users, "user"));
  }
  report.mean_train_length /= static_cast<double>(report.num_train_rows);
}

void write_targets(const SessionOptions& options, const Material& material, int64_t window,
                   bool is_test, SessionWriter& writer, const std::vector<bool>& shown,
                   TargetRows& report) {
  for (const Session& session : material.order.sessions) {
    if (session.window != window) continue;
    const auto rows_before = writer.num_rows();
    const int64_t first = is_test ? session.valid_end : session.valid_begin;
    for (int64_t end = first + 1; end <= (is_test ? session.end : session.valid_end); ++end) {
      const int64_t whole = end - session.begin;
      const int64_t length = std::min(whole, options.max_length);
      const auto before = material.context_of(session, end - length, /*of_training=*/false);
      if (before.size() + length < std::max<int64_t>(2, options.min_length)) {
        ++(whole > 1 ? report.num_short : report.num_first);
        continue;
      }
      report.num_cut += whole > length + std::ssize(before.places);
      material.write(writer, session, end - length, end, before);
      report.num_unseen += !shown[static_cast<size_t>(material.item_at(end - 1))];
    }
    report.num_sessions += writer.num_rows() > rows_before;
  }
  writer.close();
  report.num_rows += writer.num_rows();
}

void count_gaps(const Material& material, SessionReport& report) {
  const auto times = count_times(material.events, material.order);
  report.num_untimed = times.missing;
  report.num_ties = times.ties;
  for (size_t t = 0; t < times.missing_later.size(); ++t) {
    if (times.missing_later[t] == 0) continue;
    report.untimed_later.emplace_back(material.events.time_names[t + 1], times.missing_later[t]);
  }
  for (const EventFeature& feature : material.events.features) {
    const auto missing = std::ranges::count_if(material.order.events, [&](int64_t event) {
      return feature.is_missing(static_cast<size_t>(event));
    });
    if (missing == 0) continue;
    MissingValues told{feature.spec.name, missing, passes_over_missing(feature)};
    for (const Session& session : material.order.sessions) {
      bool any = false;
      for (int64_t i = session.begin; i < session.end; ++i) {
        any = any || !feature.is_missing(material.event_at(i));
      }
      told.sessions += told.passed_over && !any;
    }
    report.missing.push_back(std::move(told));
  }
}

}  // namespace convoy::prepare
