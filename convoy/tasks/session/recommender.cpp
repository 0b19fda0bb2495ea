#include "convoy/tasks/session/recommender.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <span>

#include "convoy/base/error.h"
#include "convoy/comm/to_host.h"
#include "convoy/models/session/session.h"
#include "convoy/models/session/session_targets.h"
#include "convoy/nn/losses/top_products.h"
#include "convoy/tasks/session/baselines.h"
#include "convoy/tasks/session/inherited_options.h"
#include "convoy/tasks/session/item_choice.h"
#include "convoy/tasks/session/known_items.h"
#include "convoy/tasks/session/loaded_model.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/request_sessions.h"
#include "convoy/tasks/session/same_ids.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

constexpr size_t kAtOnce = 256;  // requests that the model reads as one batch

/// Throws the error of an outcome that has one.
RecommendationAnswer answer_of(RecommendationOutcome outcome) {
  if (outcome.error) std::rethrow_exception(outcome.error);
  return std::move(outcome.answer);
}

/// Calls `work`; an error of convoy's becomes the outcome's.
template <class Work>
void try_for(RecommendationOutcome& outcome, const Work& work) try {
  work();
} catch (const Error&) {
  outcome = {{}, std::current_exception()};
}

}  // namespace

/// Immutable content of a folder.
class Recommender::Model {
 public:
  /// Loads the folder. `data`: place of users' histories; "" = beside the data of the run.
  Model(const fs::path& folder, at::Device device, fs::path data)
      : device_(device), model_(folder, device, data) {
    names_ = model_.has_newer_items ? prepare::ItemNames::load(beside(data)("items.parquet"))
                                    : item_names(folder);
    ids_ = ids_by_name(names_, num_items());
    const auto& known = model_.known;
    for (const int64_t id : known.items.unseen()) unseen_.push_back(id - 1);
    std::erase_if(ids_, [&](const auto& entry) { return !known.items.knows(entry.second); });
    sessions_ = std::make_unique<RequestSessions>(folder, std::move(data), config_, known, ids_);
    popular_ = std::make_unique<PopularItems>(kept_counts(folder), ids_);
    excludes_seen_ = excludes_seen_in(folder);
  }

  int64_t num_items() const { return model_.num_items(); }

  ItemVectors item_vectors() const {
    ItemVectors out;
    out.has_names = names_.has_names();
    std::vector<int64_t> columns;
    size_t next = 0;  // of unseen_
    for (int64_t column = 0; column < num_items(); ++column) {
      if (next < unseen_.size() && unseen_[next] == column) {
        ++next;
        continue;
      }
      columns.push_back(column);
      out.item_ids.push_back(names_.raw_id(column + 1));
      out.names.push_back(names_.name(column + 1));
    }
    const auto all = comm::download(model_.item_table()).to(at::kFloat).contiguous();
    out.vectors = unseen_.empty() ? all : all.index_select(0, at::tensor(columns, at::kLong));
    return out;
  }

  std::vector<RecommendationOutcome> answer(std::span<const RecommendationRequest> requests) const {
    std::vector<RecommendationOutcome> out(requests.size());
    for (size_t begin = 0; begin < requests.size(); begin += kAtOnce) {
      const auto count = std::min(kAtOnce, requests.size() - begin);
      answer_batch(requests.subspan(begin, count), std::span(out).subspan(begin, count));
    }
    return out;
  }

 private:
  struct Asked {
    size_t place = 0;  // of the request
    ItemChoice choice;
  };

  void answer_batch(std::span<const RecommendationRequest> requests,
                    std::span<RecommendationOutcome> out) const {
    std::vector<RequestSession> sessions;
    std::vector<Asked> asked;  // those that know an item
    for (size_t i = 0; i < requests.size(); ++i) {
      try_for(out[i], [&] {
        auto session = read(requests[i], out[i].answer);
        Asked one{i, ItemChoice::of(requests[i], session, out[i].answer.exclude_seen, ids_,
                                    out[i].answer.unknown)};
        if (session.ids.empty()) return answer_without_session(requests[i], one, out[i].answer);
        sessions.push_back(std::move(session));
        asked.push_back(std::move(one));
      });
    }
    if (asked.empty()) return;
    const auto predicted = outputs_of(sessions_->bundle_of(sessions));
    std::vector<nn::TopQuery> queries;
    for (auto& one : asked) queries.push_back(std::move(one.choice.query));
    const auto found = nn::top_products(predicted.at("states"), model_.item_table(),
                                        config_.temperature, queries, unseen_);
    for (size_t row = 0; row < asked.size(); ++row) {
      auto& outcome = out[asked[row].place];
      try_for(outcome, [&] {
        complete(requests[asked[row].place], asked[row].choice, predicted,
                 static_cast<int64_t>(row), found[row], outcome.answer);
      });
    }
  }

  RequestSession read(const RecommendationRequest& request, RecommendationAnswer& answer) const {
    const int64_t least = request.vector ? 0 : 1;
    if (request.top_k < least) {
      fail<UsageError>("predict", "top_k = {}; expected at least {}", request.top_k, least);
    }
    auto session = sessions_->of(request, answer.unknown);
    answer.exclude_seen = request.exclude_seen.value_or(excludes_seen_);
    answer.num_cut = session.num_cut;
    return session;
  }

  void answer_without_session(const RecommendationRequest& request, const Asked& asked,
                              RecommendationAnswer& answer) const {
    const bool none = !request.user && request.items.empty();
    const std::string why =
        none ? "the request has no items" : "the session has no item that the model knows";
    if (request.top_k == 0) {
      answer.note = why + ": there is no vector of it";
      return;
    }
    if (!request.popular || popular_->empty()) {
      answer.note = why + ": nothing is recommended";
      return;
    }
    put_items(popular_->top(asked.choice.query), answer);
    answer.popular = !answer.items.empty();
    answer.note = answer.popular ? why + ": these are the most popular items"
                                 : why + ", and no popular item is left: nothing is recommended";
  }

  /// Fills an answer with the model's outputs for a session, its row of `predicted`.
  void complete(const RecommendationRequest& request, const ItemChoice& choice,
                const nn::Bundle& predicted, int64_t row, const nn::TopColumns& found,
                RecommendationAnswer& answer) const {
    for (const float score : found.scores) check_finite("scores of a request", score);
    put_items(found, answer);
    if (answer.items.empty() && request.top_k > 0) {
      answer.note = choice.why_none(request, answer.exclude_seen) + ": nothing is recommended";
    }
    if (request.vector) {
      const auto state = comm::download(predicted.at("states")[row]).contiguous();
      const auto* numbers = state.const_data_ptr<float>();
      for (int64_t i = 0; i < state.numel(); ++i) {
        answer.vector.push_back(numbers[i] / static_cast<float>(config_.temperature));
        check_finite("states of a request", answer.vector.back());
      }
    }
    for (const auto& [column, binary, weight] : config_.targets) {
      const auto& values = predicted.at(models::SessionTargets::prediction(column));
      const auto value = comm::item<double>(values[row].to(at::kDouble));
      check_finite("predictions for a request", value);
      answer.predictions[column] = value;
    }
  }

  void put_items(const nn::TopColumns& found, RecommendationAnswer& answer) const {
    for (size_t i = 0; i < found.columns.size(); ++i) {
      const int64_t id = found.columns[i] + 1;
      answer.items.push_back({names_.raw_id(id), names_.name(id), found.scores[i]});
    }
  }

  /// Outputs of the last block: states [rows, width], and targets [rows].
  nn::Bundle outputs_of(nn::Bundle bundle) const {
    at::NoGradGuard no_grad;
    nn::Context context;
    context.mode = nn::Mode::Predict;
    const auto loaded = bundle;
    context.loaded = &loaded;
    context.samples = at::arange(bundle.at("lengths").size(0), at::kLong);
    for (auto& [name, tensor] : bundle) tensor = tensor.to(device_);
    for (const auto& block : model_.blocks) {
      bundle = block->forward(bundle, context);
      ++context.block;
    }
    return bundle;
  }

  at::Device device_;
  bool excludes_seen_ = false;  // as the run was trained
  const LoadedModel model_;
  const models::SessionConfig& config_ = model_.config;
  prepare::ItemNames names_;
  Ids ids_;                      // of items that are known
  std::vector<int64_t> unseen_;  // columns of the others
  std::unique_ptr<const RequestSessions> sessions_;
  std::unique_ptr<const PopularItems> popular_;
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
  return answer_of(std::move(model()->answer({&request, 1}).front()));
}

std::vector<RecommendationAnswer> Recommender::recommend(
    const std::vector<RecommendationRequest>& requests) const {
  std::vector<RecommendationAnswer> out;
  for (auto& outcome : recommend_each(requests)) out.push_back(answer_of(std::move(outcome)));
  return out;
}

std::vector<RecommendationOutcome> Recommender::recommend_each(
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

ItemVectors Recommender::item_vectors() const {
  return model()->item_vectors();
}

}  // namespace convoy::tasks
