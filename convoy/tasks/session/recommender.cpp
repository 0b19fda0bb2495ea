#include "convoy/tasks/session/recommender.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/models/session/session.h"
#include "convoy/models/session/session_targets.h"
#include "convoy/nn/losses/left_out.h"
#include "convoy/nn/losses/ranking.h"
#include "convoy/parallel/run/replica.h"
#include "convoy/tasks/session/histories.h"
#include "convoy/tasks/session/inherited_options.h"
#include "convoy/tasks/session/known_items.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/request_features.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

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

/// Request as the model sees it: ids, and the items they belong to.
struct Session {
  std::vector<int64_t> ids;
  std::vector<size_t> places;
  std::set<int64_t> seen;  ///< all ids, also those that the model does not read
  int64_t num_cut = 0;     ///< oldest ids that it does not read
  std::map<std::string, std::vector<double>> features;  ///< categories as ids
};

}  // namespace

/// Content of a folder; never changes.
class Recommender::Model {
 public:
  /// `data`: where histories of users are; "" = beside the data of the run.
  Model(const fs::path& folder, at::Device device, fs::path data)
      : folder_(folder), data_(std::move(data)), device_(device) {
    const auto file = folder / "config.json";
    config_.read_json(parse_json(read_file(file), file.string()), file.string());
    names_ = item_names(folder);
    ids_ = ids_by_name(names_, num_items());
    const auto known = KnownIdsOfModel::of_run(folder, config_);
    if (const auto unseen = known.items.unseen(); !unseen.empty()) unseen_ = at::tensor(unseen);
    std::erase_if(ids_, [&](const auto& entry) { return !known.items.knows(entry.second); });
    features_ = std::make_unique<RequestFeatures>(folder, config_, known.features);
    excludes_seen_ = excludes_seen_in(folder);
    blocks_ = models::make_session_model(config_);
    parallel::ReplicaOptions options;
    options.device = device;
    options.fill = [&folder](parallel::Replica& model) {
      checkpoint::load_weights(folder, model.weights(), model.world());
    };
    replica_ = std::make_unique<parallel::Replica>(blocks_, comm::Groups(), options);
    replica_->start();
  }

  int64_t num_items() const { return num_ids() - 1; }

  std::vector<RecommendationAnswer> answer(
      const std::vector<RecommendationRequest>& requests) const {
    std::vector<RecommendationAnswer> out(requests.size());
    std::vector<Session> sessions;
    std::vector<size_t> asked;  // those that know an item
    int64_t longest = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      auto session = session_of(requests[i], out[i].unknown);
      out[i].exclude_seen = excludes_seen(requests[i]);
      out[i].num_cut = session.num_cut;
      if (session.ids.empty()) {
        const bool none = !requests[i].user && requests[i].items.empty();
        out[i].note = fmt::format(
            "{}: nothing is recommended",
            none ? "the request has no items" : "the session has no item that the model knows");
        continue;
      }
      longest = std::max(longest, static_cast<int64_t>(session.ids.size()));
      sessions.push_back(std::move(session));
      asked.push_back(i);
    }
    if (asked.empty()) return out;
    auto predicted = outputs_of(bundle_of(requests, sessions, asked, longest));
    auto& scores = predicted.at("scores");
    if (unseen_.defined()) nn::LeftOut{unseen_, {}}.mask(scores, /*first=*/1);
    for (size_t row = 0; row < asked.size(); ++row) {
      const auto i = asked[row];
      out[i].items =
          best(scores[static_cast<int64_t>(row)], requests[i], sessions[row], out[i].unknown);
      if (out[i].items.empty()) out[i].note = why_none(requests[i]);
      for (const auto& [column, binary, weight] : config_.targets) {
        const auto& values = predicted.at(models::SessionTargets::prediction(column));
        const auto value = comm::item<double>(values[static_cast<int64_t>(row)]);
        check_finite("predictions for a request", value);
        out[i].predictions[column] = value;
      }
    }
    return out;
  }

 private:
  int64_t num_ids() const { return config_.item().cardinality; }

  bool excludes_seen(const RecommendationRequest& request) const {
    return request.exclude_seen.value_or(excludes_seen_);
  }

  /// Numbers of a value.
  static int64_t numbers_in(const models::SessionFeature& feature) {
    return std::max<int64_t>(1, feature.width);
  }

  /// The last items that the model reads.
  Session session_of(const RecommendationRequest& request,
                     std::vector<std::string>& unknown) const {
    if (request.top_k < 1) {
      fail<UsageError>("predict", "top_k = {}; expected at least 1", request.top_k);
    }
    Session out;
    out.features = features_->of(request, unknown);
    check_times(request);
    const auto asked = request.user ? take_history(request, out, unknown) : request.items;
    for (size_t i = 0; i < asked.size(); ++i) {
      if (const auto id = ids_.find(asked[i]); id != ids_.end()) {
        out.ids.push_back(id->second);
        out.places.push_back(i);
        out.seen.insert(id->second);
      } else if (std::ranges::find(unknown, asked[i]) == unknown.end()) {
        unknown.push_back(asked[i]);
      }
    }
    const auto over = std::ssize(out.ids) - config_.prediction_length();
    if (over > 0) {
      out.num_cut = over;
      out.ids.erase(out.ids.begin(), out.ids.begin() + over);
      out.places.erase(out.places.begin(), out.places.begin() + over);
    }
    return out;
  }

  /// Adds what the request's user had to `out.seen`, or an unknown user to `unknown`. Returns the
  /// items of the session: those of the request, else the user's.
  std::vector<std::string> take_history(const RecommendationRequest& request, Session& out,
                                        std::vector<std::string>& unknown) const {
    std::call_once(read_histories_, [this] {
      histories_ = std::make_unique<const Histories>(folder_, config_, data_);
    });
    const auto* history = histories_->of(*request.user);
    if (history == nullptr) unknown.push_back("user: " + *request.user);
    std::vector<std::string> own;
    for (const int32_t id : history == nullptr ? std::span<const int32_t>() : *history) {
      if (id > 0 && id < num_ids()) out.seen.insert(id);
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

  [[noreturn]] static void fail_of_history(const RecommendationRequest& request,
                                           const std::string& what) {
    fail<UsageError>("predict",
                     "a request of user '{}' has no items, and the model reads {} of each, which "
                     "histories do not hold; try \"items\" beside \"user\"",
                     *request.user, what);
  }

  void check_times(const RecommendationRequest& request) const {
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

  /// When each item was, and when that is asked for which follows.
  void put_times(const std::vector<RecommendationRequest>& requests,
                 const std::vector<Session>& sessions, const std::vector<size_t>& asked,
                 nn::Bundle& out) const {
    const auto& ids = out.at(config_.item_feature);
    auto times = at::zeros_like(ids), now = at::zeros({ids.size(0)}, at::kLong);
    for (int64_t row = 0; row < ids.size(0); ++row) {
      const auto& places = sessions[static_cast<size_t>(row)].places;
      const auto& request = requests[asked[static_cast<size_t>(row)]];
      auto* own = times.data_ptr<int64_t>() + row * ids.size(1);
      for (size_t i = 0; i < places.size(); ++i) own[i] = request.times[places[i]];
      now[row] = request.time.value_or(request.times[places.back()]);
    }
    out[config_.time_feature] = times;
    out[models::kRequestTime] = now;
  }

  nn::Bundle bundle_of(const std::vector<RecommendationRequest>& requests,
                       const std::vector<Session>& sessions, const std::vector<size_t>& asked,
                       int64_t longest) const {
    const auto rows = std::ssize(sessions);
    nn::Bundle out{{"lengths", at::zeros({rows}, at::kLong)}};
    for (const auto& feature : config_.features) {
      const bool item = feature.name == config_.item_feature;
      const int64_t length = feature.is_list ? longest : 1, width = numbers_in(feature);
      auto column = at::zeros({rows, length, width}, at::kDouble);
      for (int64_t row = 0; row < rows; ++row) {
        const auto& session = sessions[static_cast<size_t>(row)];
        const auto& given = session.features;
        const auto values = given.find(feature.name);
        if (!item && values == given.end()) {
          fail<UsageError>("predict", "a request lacks the feature '{}'; expected {}", feature.name,
                           feature.is_list ? "a value of it for each item" : "its value");
        }
        auto* numbers = column.data_ptr<double>() + row * length * width;
        const auto count = feature.is_list ? std::ssize(session.ids) : 1;
        for (int64_t i = 0; i < count * width; ++i) {
          const auto at = static_cast<size_t>(i / width);
          const auto place = feature.is_list ? session.places[at] : 0;
          numbers[i] = item ? static_cast<double>(session.ids[at])
                            : checked(feature, values->second[place * static_cast<size_t>(width) +
                                                              static_cast<size_t>(i % width)]);
        }
        out["lengths"][row] = std::ssize(session.ids);
      }
      column = column.to(feature.categorical ? at::kLong : at::kFloat);
      if (feature.width == 0) column = column.squeeze(2);
      if (!feature.is_list) column = column.squeeze(1);
      out[feature.name] = std::move(column);
    }
    if (!config_.time_feature.empty()) put_times(requests, sessions, asked, out);
    return out;
  }

  static void check_finite(const char* of, double value) {
    if (std::isfinite(value)) return;
    fail<NumericError>("predict",
                       "the {} are not finite; got {}; look for extreme values in its features, or "
                       "for a training that diverged",
                       of, value);
  }

  static double checked(const models::SessionFeature& feature, double value) {
    const bool fits = feature.categorical ? value == std::floor(value) && value >= 0 &&
                                                value < static_cast<double>(feature.cardinality)
                                          : std::isfinite(value);
    if (fits) return value;
    fail<UsageError>("predict", "a request has {} of feature '{}'; expected {}", value,
                     feature.name,
                     feature.categorical ? fmt::format("an id of 0 to {}", feature.cardinality - 1)
                                         : std::string("a finite number"));
  }

  /// Outputs of the last block, fp32 on the host: scores [rows, items], and targets [rows].
  nn::Bundle outputs_of(nn::Bundle bundle) const {
    at::NoGradGuard no_grad;
    nn::Context context;
    context.mode = nn::Mode::Predict;
    const auto loaded = bundle;
    context.loaded = &loaded;
    context.samples = at::arange(bundle.at("lengths").size(0), at::kLong);
    for (auto& [name, tensor] : bundle) tensor = tensor.to(device_);
    for (const auto& block : blocks_) {
      bundle = block->forward(bundle, context);
      ++context.block;
    }
    for (auto& [name, tensor] : bundle) tensor = comm::download(tensor).to(at::kFloat);
    return bundle;
  }

  std::vector<RecommendedItem> best(at::Tensor scores, const RecommendationRequest& request,
                                    const Session& session,
                                    std::vector<std::string>& unknown) const {
    if (!request.candidates.empty()) {
      std::vector<int64_t> columns;
      for (const auto& candidate : request.candidates) {
        if (const auto id = ids_.find(candidate); id != ids_.end()) {
          columns.push_back(id->second - 1);
        } else {
          unknown.push_back(candidate);
        }
      }
      const auto chosen = at::tensor(columns, at::kLong);
      scores = at::full_like(scores, kNever).index_copy_(0, chosen, scores.index_select(0, chosen));
    }
    if (excludes_seen(request)) {
      auto scored = scores.accessor<float, 1>();
      for (const int64_t id : session.seen) scored[id - 1] = kNever;
    }
    const auto found = nn::best_columns(scores.unsqueeze(0), request.top_k);
    const auto values = found.scores.squeeze(0), columns = found.columns.squeeze(0);
    std::vector<RecommendedItem> out;
    for (int64_t i = 0; i < values.size(0); ++i) {
      const auto score = values.const_data_ptr<float>()[i];
      if (score == kNever) break;
      check_finite("scores of a request", score);
      const int64_t id = columns.const_data_ptr<int64_t>()[i] + 1;
      out.push_back({names_.raw_id(id), names_.name(id), score});
    }
    return out;
  }

  /// Why nothing is recommended to a session with known items.
  std::string why_none(const RecommendationRequest& request) const {
    const auto& asked = request.candidates;
    const auto knows = [&](const std::string& id) { return ids_.contains(id); };
    const bool any = asked.empty() || std::ranges::any_of(asked, knows);
    return fmt::format("{}: nothing is recommended",
                       !any            ? "the model knows none of the candidates"
                       : asked.empty() ? "all items are left out as seen (exclude_seen)"
                                       : "all candidates that the model knows are left out as seen "
                                         "(exclude_seen)");
  }

  fs::path folder_, data_;
  at::Device device_;
  bool excludes_seen_ = false;  // as the run was trained
  mutable std::once_flag read_histories_;
  mutable std::unique_ptr<const Histories> histories_;  // read where a user is asked for
  models::SessionConfig config_;
  prepare::ItemNames names_;
  Ids ids_;            // of items that are known
  at::Tensor unseen_;  // the others; undefined: none
  std::unique_ptr<RequestFeatures> features_;
  nn::BlockList blocks_;
  std::unique_ptr<parallel::Replica> replica_;  // holds what the blocks compute with
};

Recommender::Recommender(const fs::path& folder, at::Device device, fs::path data)
    : device_(device), data_(std::move(data)) {
  load(folder);
}

Recommender::~Recommender() = default;

std::shared_ptr<const Recommender::Model> Recommender::model() const {
  const std::lock_guard lock(mutex_);
  return model_;
}

RecommendationAnswer Recommender::recommend(const RecommendationRequest& request) const {
  return model()->answer({request}).front();
}

std::vector<RecommendationAnswer> Recommender::recommend(
    const std::vector<RecommendationRequest>& requests) const {
  return model()->answer(requests);
}

void Recommender::load(const fs::path& folder) {
  auto fresh = std::make_shared<const Model>(folder, device_, data_);
  const std::lock_guard lock(mutex_);
  model_ = std::move(fresh);
}

int64_t Recommender::num_items() const {
  return model()->num_items();
}

}  // namespace convoy::tasks
