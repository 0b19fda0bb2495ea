#pragma once

// Internal to the component: which events of each session train, and which are targets.

#include "convoy/prepare/events.h"
#include "convoy/prepare/sessions.h"
#include "convoy/prepare/sessions_order.h"

namespace convoy::prepare {

/// Sets the events of each session that are held out. With windows all events train, as a model is
/// evaluated on the next window. Throws FileError where a split by dates meets an event without a
/// time or has no events before, between or after its dates.
void hold_out(const SessionOptions& options, const Events& events, SessionOrder& order);

/// Number of `num_events` events that validate and that test, by RecBole's rule: the whole part of
/// each share, at least one, as long as more than one trains; the test comes first.
std::array<int64_t, 2> counts_by_ratio(int64_t num_events, const std::array<double, 3>& shares);

}  // namespace convoy::prepare
