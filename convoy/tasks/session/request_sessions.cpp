#include "convoy/tasks/session/request_sessions.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

/// Throws UsageError on times that go back, or can be no seconds.
void check_order_of_times(const RecommendationRequest& request) {
  constexpr int64_t kFar = 100'000'000'000;  // seconds, in the year 5138
  auto times = request.times;
  if (request.time) times.push_back(*request.time);
  for (size_t i = 0; i < times.size(); ++i) {
    const bool asked = i == request.times.size();
    if (times[i] >= kFar) {
      fail<UsageError>("predict",
                       "a request has the time {} in \"{}\": it may be in a smaller unit; expected "
                       "seconds since 1970",
                       times[i], asked ? "time" : "times");
    }
    if (i == 0 || times[i] >= times[i - 1]) continue;
    fail<UsageError>("predict",
                     "a request has {} {} after an event at {}; expected times that do not go back",
                     asked ? "\"time\"" : "an event at", times[i], times[i - 1]);
  }
}

[[noreturn]] void fail_of_history(const RecommendationRequest& request, const std::string& what) {
  fail<UsageError>("predict",
                   "a request of user '{}' has no items, and the model reads {} of each, which "
                   "histories do not hold; try \"items\" beside \"user\"",
                   *request.user, what);
}

/// Number of numbers in a feature's value.
int64_t numbers_in(const models::SessionFeature& feature) {
  return std::max<int64_t>(1, feature.width);
}

double checked(const models::SessionFeature& feature, double value) {
  const bool fits = feature.categorical ? value == std::floor(value) && value >= 0 &&
                                              value < static_cast<double>(feature.cardinality)
                                        : std::isfinite(value);
  if (fits) return value;
  fail<UsageError>("predict", "a request has {} of feature '{}'; expected {}", value, feature.name,
                   feature.categorical ? fmt::format("an id of 0 to {}", feature.cardinality - 1)
                                       : std::string("a finite number"));
}

}  // namespace

void check_finite(const char* of, double value) {
  if (std::isfinite(value)) return;
  fail<NumericError>("predict",
                     "the {} are not finite; got {}; look for extreme values in its features, or "
                     "for a training that diverged",
                     of, value);
}

RequestSessions::RequestSessions(const fs::path& folder, fs::path data,
                                 const models::SessionConfig& config, const KnownIdsOfModel& known,
                                 const Ids& ids)
    : folder_(folder),
      data_(std::move(data)),
      config_(config),
      num_ids_(std::ssize(known.items.by_id())),
      ids_(ids),
      features_(folder, config, known.features) {}

RequestSession RequestSessions::of(const RecommendationRequest& request,
                                   std::vector<std::string>& unknown) const {
  RequestSession out;
  const auto given = features_.of(request, unknown);
  check_times(request);
  const auto asked = request.user ? take_history(request, out, unknown) : request.items;
  std::vector<size_t> places;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (const auto id = ids_.find(asked[i]); id != ids_.end()) {
      out.ids.push_back(id->second);
      places.push_back(i);
      out.seen.insert(id->second);
    } else if (std::ranges::find(unknown, asked[i]) == unknown.end()) {
      unknown.push_back(asked[i]);
    }
  }
  const auto over = std::ssize(out.ids) - config_.prediction_length();
  if (over > 0) {
    out.num_cut = over;
    out.ids.erase(out.ids.begin(), out.ids.begin() + over);
    places.erase(places.begin(), places.begin() + over);
  }
  if (out.ids.empty()) return out;
  for (const auto& feature : config_.features) {
    if (feature.name == config_.item_feature) continue;
    out.features[feature.name] = numbers_at(feature, given, places);
  }
  if (config_.time_feature.empty()) return out;
  for (const size_t place : places) out.times.push_back(request.times[place]);
  out.now = request.time.value_or(out.times.back());
  return out;
}

std::vector<double> RequestSessions::numbers_at(
    const models::SessionFeature& feature, const std::map<std::string, std::vector<double>>& given,
    const std::vector<size_t>& places) const {
  const auto values = given.find(feature.name);
  if (values == given.end()) {
    fail<UsageError>("predict", "a request lacks the feature '{}'; expected {}", feature.name,
                     feature.is_list ? "a value of it for each item" : "its value");
  }
  const auto width = static_cast<size_t>(numbers_in(feature));
  std::vector<double> out;
  for (const size_t place : feature.is_list ? places : std::vector<size_t>{0}) {
    for (size_t i = 0; i < width; ++i) {
      out.push_back(checked(feature, values->second[place * width + i]));
    }
  }
  return out;
}

/// Adds what the request's user had to `out.seen`, or an unknown user to `unknown`. Returns the
/// items of the session: those of the request, else the user's.
std::vector<std::string> RequestSessions::take_history(const RecommendationRequest& request,
                                                       RequestSession& out,
                                                       std::vector<std::string>& unknown) const {
  std::call_once(read_histories_, [this] {
    histories_ = std::make_unique<const Histories>(folder_, config_, data_);
  });
  const auto* history = histories_->of(*request.user);
  if (history == nullptr) unknown.push_back("user: " + *request.user);
  std::vector<std::string> own;
  for (const int32_t id : history == nullptr ? std::span<const int32_t>() : *history) {
    if (id > 0 && id < num_ids_) out.seen.insert(id);
    if (request.items.empty()) own.push_back(histories_->raw_id(id));
  }
  if (!request.items.empty()) return request.items;
  for (const auto& feature : config_.features) {
    const bool lacks = feature.is_list && feature.name != config_.item_feature;
    if (lacks) fail_of_history(request, "the feature '" + feature.name + "'");
  }
  if (!config_.time_feature.empty()) fail_of_history(request, "times");
  return own;
}

void RequestSessions::check_times(const RecommendationRequest& request) const {
  const bool reads = !config_.time_feature.empty();
  if (!reads && (!request.times.empty() || request.time)) {
    fail<UsageError>("predict", "a request has times, which this model does not read");
  }
  if (!reads) return;
  if (request.times.size() != request.items.size()) {
    fail<UsageError>("predict", "a request has {} for {}; expected when each was, in seconds",
                     plural(std::ssize(request.times), "time"),
                     plural(std::ssize(request.items), "item"));
  }
  check_order_of_times(request);
}

nn::Bundle RequestSessions::bundle_of(const std::vector<RequestSession>& sessions) const {
  const auto rows = std::ssize(sessions);
  int64_t longest = 0;
  for (const auto& session : sessions) longest = std::max(longest, std::ssize(session.ids));
  nn::Bundle out{{"lengths", at::zeros({rows}, at::kLong)}};
  const auto put = [&](const std::string& name, const at::Tensor& column, const auto& values_of) {
    using Number = std::remove_cvref_t<decltype(values_of(sessions.front()).front())>;
    auto* numbers = column.mutable_data_ptr<Number>();
    for (int64_t row = 0; row < rows; ++row) {
      const auto& values = values_of(sessions[static_cast<size_t>(row)]);
      std::ranges::copy(values, numbers + row * (column.numel() / rows));
    }
    out[name] = column;
  };
  for (const auto& feature : config_.features) {
    if (feature.name == config_.item_feature) {
      put(feature.name, at::zeros({rows, longest}, at::kLong),
          [](const RequestSession& session) -> const auto& { return session.ids; });
      continue;
    }
    const int64_t length = feature.is_list ? longest : 1;
    put(feature.name, at::zeros({rows, length, numbers_in(feature)}, at::kDouble),
        [&](const RequestSession& session) -> const auto& {
          return session.features.at(feature.name);
        });
    auto column = out[feature.name].to(feature.categorical ? at::kLong : at::kFloat);
    if (feature.width == 0) column = column.squeeze(2);
    if (!feature.is_list) column = column.squeeze(1);
    out[feature.name] = std::move(column);
  }
  auto* lengths = out["lengths"].mutable_data_ptr<int64_t>();
  for (const auto& session : sessions) *lengths++ = std::ssize(session.ids);
  if (config_.time_feature.empty()) return out;
  put(config_.time_feature, at::zeros({rows, longest}, at::kLong),
      [](const RequestSession& session) -> const auto& { return session.times; });
  std::vector<int64_t> now;
  for (const auto& session : sessions) now.push_back(session.now);
  out[models::kRequestTime] = at::tensor(now);
  return out;
}

}  // namespace convoy::tasks
