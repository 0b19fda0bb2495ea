#pragma once

#include <cstddef>

#include "convoy/prepare/events.h"
#include "convoy/prepare/sessions.h"
#include "convoy/prepare/sessions_order.h"

namespace convoy::prepare {

/// Feature `time_delta`, seconds since the event before: computed from the order, unless the input
/// has such a column.
class TimeDelta {
 public:
  /// Takes the feature out of the options. Throws UsageError where it is asked for as a category.
  explicit TimeDelta(SessionOptions& options);

  bool is_wanted() const { return place_ >= 0; }

  /// Adds the feature at its place. Throws UsageError for events without times.
  void add(Events& events, const SessionOrder& order) const;

 private:
  FeatureSpec spec_;
  std::ptrdiff_t place_ = -1;
};

}  // namespace convoy::prepare
