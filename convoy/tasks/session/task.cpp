#include "convoy/tasks/session/task.h"

#include "convoy/checkpoint/weights.h"
#include "convoy/data/dataset.h"
#include "convoy/prepare/popularity.h"
#include "convoy/tasks/session/ranking_metrics.h"

namespace convoy::tasks {

void SessionTask::settle(OptionTable& table) {
  arguments_.apply_parity(table);
  arguments_.check(table);
}

Run SessionTask::run(std::shared_ptr<train::Dataset> train_data, train::ModelFiles files) {
  Run out;
  out.factory = [model = session_.model] { return models::make_session_model(model); };
  out.train_data = std::move(train_data);
  out.files = std::move(files);
  const auto& ranking = arguments_.ranking;
  out.scorer = [top_ks = ranking.top_k_values(),
                other_names = ranking.metric_names == "transformers4rec"] {
    return std::make_unique<RankingMetrics>(top_ks, other_names);
  };
  return out;
}

Run SessionTask::prepare() {
  session_ = make_session_model(arguments_);
  const auto& data = arguments_.data;
  auto warnings = arguments_.warnings;
  const auto& more = session_.schema.warnings;
  warnings.insert(warnings.end(), more.begin(), more.end());
  auto out = run(open_sessions(data.train_file(), session_, data, warnings),
                 session_files(session_, data));
  out.valid_data = evaluation_data("").data;
  return out;
}

Run SessionTask::open(const std::filesystem::path& folder, OptionTable& table) {
  session_ = open_session_model(folder, arguments_, table);
  auto out = run(nullptr, {});
  out.fill = [folder](parallel::Replica& model) {
    checkpoint::load_weights(folder, model.weights(), model.group());
  };
  return out;
}

NamedData SessionTask::open_data(const std::string& where, const DataArguments& data,
                                 bool with_owner) const {
  const auto file = where.empty() ? data.valid_file() : valid_in(where);
  if (file.empty()) return {};
  return {file, open_sessions(file, session_, data, {}, with_owner)};
}

NamedData SessionTask::evaluation_data(const std::string& where) {
  return open_data(where, arguments_.data, /*with_owner=*/false);
}

NamedData SessionTask::prediction_data(const std::string& where) {
  auto data = arguments_.data;
  data.truncation = "keep_last";  // what follows a session follows its end
  return open_data(where, data, /*with_owner=*/true);
}

std::string SessionTask::baseline() {
  const auto& data = arguments_.data;
  if (data.valid_file().empty()) return "";
  const auto& items = session_.model.item_feature;
  const auto counts = prepare::count_items(data::Dataset(data.train_file()), items,
                                           session_.schema.find(items)->int_domain->max);
  const auto report =
      prepare::popularity_baseline(counts, data::Dataset(data.valid_file()), items, {10});
  return fmt::format(
      "popularity baseline (the same items for everyone): NDCG@10 {:.4f}, Recall@10 {:.4f}",
      report.ndcg.at(0), report.recall.at(0));
}

}  // namespace convoy::tasks
