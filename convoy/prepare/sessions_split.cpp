#include "convoy/prepare/sessions_split.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/prepare/sessions_times.h"

namespace convoy::prepare {

namespace {

/// Sets the places of a session whose last `num_valid` + `num_test` events are targets.
void set_targets(Session& session, int64_t num_valid, int64_t num_test) {
  session.valid_end = session.end - num_test;
  session.valid_begin = session.train_end = session.valid_end - num_valid;
}

/// Holds out the last two events, as far as one is left to train; the only event of a session is a
/// target.
void hold_out_last_two(Session& session) {
  const int64_t length = session.end - session.begin;
  set_targets(session, length > 2 ? 1 : 0, 1);
}

/// First place of a session with an event at `seconds` or later.
int64_t first_not_before(const Events& events, const SessionOrder& order, const Session& session,
                         double seconds) {
  const auto begin = order.events.begin() + session.begin, end = order.events.begin() + session.end;
  const auto& times = events.times.front();
  const auto found = std::partition_point(
      begin, end, [&](int64_t event) { return times.seconds(event) < seconds; });
  return session.begin + (found - begin);
}

void check_dates(const Validation& validation, const Events& events, const SessionOrder& order) {
  const auto span = span_of(events, order);
  if (span && validation.dates[0] > span->first && validation.dates[1] <= span->last) return;
  fail<FileError>("prepare",
                  "--validation {} leaves no events before, between or after its dates: the events "
                  "are from {} to {} (UTC); expected two dates in between",
                  validation.text, span ? utc_text(span->first) : "no time",
                  span ? utc_text(span->last) : "none");
}

}  // namespace

std::array<int64_t, 2> counts_by_ratio(int64_t num_events, const std::array<double, 3>& shares) {
  const auto all = static_cast<double>(num_events);
  const double valid = shares[1] * all, test = shares[2] * all;
  std::array<int64_t, 2> out{static_cast<int64_t>(valid), static_cast<int64_t>(test)};
  for (size_t i : {size_t{1}, size_t{0}}) {
    if (num_events - out[0] - out[1] <= 1) break;
    if (out[i] == 0) ++out[i];
  }
  return out;
}

void hold_out(const SessionOptions& options, const Events& events, SessionOrder& order) {
  const Validation& validation = options.validation;
  if (validation.kind == Validation::Dates) check_dates(validation, events, order);
  for (Session& session : order.sessions) {
    switch (validation.kind) {
      case Validation::None:
        set_targets(session, 0, 0);
        break;
      case Validation::LastOut:
        set_targets(session, 1, 0);
        if (options.window_days > 0) session.train_end = session.end;
        break;
      case Validation::LastTwo:
        hold_out_last_two(session);
        break;
      case Validation::Ratio: {
        const auto [valid, test] = counts_by_ratio(session.end - session.begin, validation.shares);
        set_targets(session, valid, test);
        break;
      }
      case Validation::Dates:
        session.train_end = first_not_before(events, order, session, validation.dates[0]);
        session.valid_begin = session.train_end;
        session.valid_end = first_not_before(events, order, session, validation.dates[1]);
        break;
    }
  }
}

}  // namespace convoy::prepare
