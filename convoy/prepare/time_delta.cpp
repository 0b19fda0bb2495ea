#include "convoy/prepare/time_delta.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::prepare {

namespace {

constexpr const char* kTimeDelta = "time_delta";

}  // namespace

TimeDelta::TimeDelta(SessionOptions& options) {
  auto& features = options.columns.features;
  const auto found = std::ranges::find(features, kTimeDelta, &FeatureSpec::name);
  if (found == features.end()) return;
  const auto columns = list_columns(options.inputs.front(), options.table);
  if (std::ranges::find(columns, kTimeDelta) != columns.end()) return;
  if (found->kind == FeatureKind::Categorical) {
    fail<UsageError>("prepare", "the feature time_delta is categorical; expected continuous");
  }
  spec_ = *found;
  place_ = found - features.begin();
  features.erase(found);
}

void TimeDelta::add(Events& events, const SessionOrder& order) const {
  if (!is_wanted()) return;
  if (events.times.empty()) {
    fail<UsageError>("prepare", "the feature time_delta needs times; got --time none");
  }
  EventFeature feature{spec_, {}, {}, {}};
  feature.spec.kind = FeatureKind::Continuous;
  feature.values.assign(static_cast<size_t>(events.num_events), 0);
  for (const Session& session : order.sessions) {
    for (int64_t i = session.begin; i < session.end; ++i) {
      const int64_t event = order.events[static_cast<size_t>(i)];
      const int64_t previous = order.events[static_cast<size_t>(std::max(i - 1, session.begin))];
      feature.values[static_cast<size_t>(event)] =
          spec_.of_event(events.times.front().between(previous, event));
    }
  }
  events.features.insert(events.features.begin() + place_, std::move(feature));
}

}  // namespace convoy::prepare
