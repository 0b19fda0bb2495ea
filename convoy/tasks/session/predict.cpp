#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/data/parquet_files.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/seen.h"
#include "convoy/tasks/answer_lines.h"
#include "convoy/tasks/session/item_tower.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/recommender.h"
#include "convoy/tasks/session/same_ids.h"
#include "convoy/tasks/session/task.h"
#include "convoy/tasks/text_output.h"
#include "convoy/tasks/unread_options.h"

namespace convoy::tasks {

namespace {

namespace fs = std::filesystem;

/// Files that a prediction reads.
std::vector<fs::path> inputs_of(const PredictionRequest& asked, const std::string& data) {
  std::vector<fs::path> inputs;
  // Tables that `convoy data sessions` wrote beside the rows: a prediction must not replace them.
  for (const char* name : {prepare::kUsersFile, prepare::kSeenFile, prepare::kItemFeaturesFile,
                           "train.parquet", "valid.parquet", "test.parquet", "items.parquet"}) {
    inputs.push_back(beside(data)(name));
  }
  const data::ParquetFiles dataset(data);
  for (const auto& part : dataset.files()) inputs.push_back(part.path());
  for (const auto& place : {asked.folder, asked.folder / ".."}) {
    inputs.push_back(place / "items.parquet");
  }
  return inputs;
}

void show(const Recommendation& row, const RecommendationNames& names) {
  std::vector<std::string> before;
  for (const int64_t id : row.session) before.push_back(names.items.label(id));
  const bool cut = row.session_length > std::ssize(row.session);
  const auto owner = names.owner(row);
  const auto user = owner ? fmt::format(", user {}", *owner) : "";
  const auto title = fmt::format("row {}{}, after {}{}", row.row, user, cut ? "... " : "",
                                 fmt::join(before, " | "));
  fmt::print("{}\n", wrap(printable(title), 2));
  for (size_t i = 0; i < row.targets.size(); ++i) {
    fmt::print("  {} {:.4f}\n", printable(names.targets[i]), row.targets[i]);
  }
  for (size_t i = 0; i < row.ids.size(); ++i) {
    const auto title = printable(names.items.name(row.ids[i]));
    fmt::print("  {:>3}. {:<12} {:>9.4f}{}{}\n", i + 1, printable(names.items.raw_id(row.ids[i])),
               row.scores[i], title.empty() ? "" : "  ", title);
  }
}

/// Whether --exclude_seen was typed beside an opened model.
bool asks_to_exclude(const OptionTable& options) {
  const auto* option = options.find("train.exclude_seen");
  return option->typed && option->plain() != "auto";
}

/// Throws UsageError on a typed option that predictions of data read, but answers do not: these
/// are computed on the CPU in fp32, from as many items as the model was trained with.
void refuse_unread_options(const OptionTable& options) {
  static const std::set<std::string> kRead{"train.exclude_seen", "train.seed", "train.data_seed",
                                           "train.deterministic"};
  for (const auto& option : options.options()) {
    if (!option.typed || kRead.contains(option.key())) continue;
    const bool of_predictions = option.section == "train" && read_without_training(option);
    const bool on_gpu = option.key() == "parallel.device" && option.plain() == "cuda";
    if (option.section != "data" && !of_predictions && !on_gpu) continue;
    fail<UsageError>("predict",
                     "--{} has no effect with --requests, which are answered on the CPU in fp32 "
                     "from as many items as the model was trained with; try without it",
                     option.name);
  }
}

constexpr size_t kLinesAtOnce = 64;  // of requests that have arrived

bool asks_to_load(const Json& request) {
  return request.is_object() && request.contains("load") &&
         request.size() == (request.contains("id") ? 2U : 1U);
}

Json load(Recommender& recommender, const Json& folder) {
  if (!folder.is_string()) {
    fail<UsageError>("predict", "\"load\" is {}; expected a run's folder or a checkpoint in it",
                     json_line(folder));
  }
  recommender.load(folder.get<std::string>());
  return {{"loaded", folder}};
}

Json to_json(const RecommendationOutcome& outcome) {
  return answer_or_error([&] {
    if (outcome.error) std::rethrow_exception(outcome.error);
    return outcome.answer.to_json();
  });
}

/// Answers requests, a line of JSON each, or a list of them. What a request does not say is as
/// `usual`. {"load": FOLDER} takes another checkpoint for those that follow. Histories of users are
/// in asked.data.
void answer_requests(const PredictionRequest& asked, const options::TrainingArguments& training,
                     const RecommendationRequest& usual) {
  auto others = asked;
  others.data.clear();  // has the histories
  check_only_requests(others);
  check_answers_alone(job::join_job(training.parallel).num_ranks());
  Recommender recommender(asked.folder, at::kCPU, asked.data);
  answer_batches(kLinesAtOnce, [&](const std::vector<Json>& requests) {
    std::vector<Json> out(requests.size());
    std::vector<size_t> places;  // of requests that are read and not answered yet
    std::vector<RecommendationRequest> read;
    const auto answer = [&] {
      auto outcomes = recommender.recommend_each(read);
      for (size_t i = 0; i < read.size(); ++i) out[places[i]] = to_json(outcomes[i]);
      places.clear();
      read.clear();
    };
    for (size_t i = 0; i < requests.size(); ++i) {
      if (asks_to_load(requests[i])) answer();
      out[i] = answer_or_error([&]() -> Json {
        if (asks_to_load(requests[i])) return load(recommender, requests[i].at("load"));
        read.push_back(RecommendationRequest::from_json(requests[i], usual));
        places.push_back(i);
        return {};
      });
    }
    answer();
    return out;
  });
}

}  // namespace

void SessionTask::declare_predict(OptionTable& table) {
  table.add("predict", "top_k", top_k_, "items to recommend per session").at_least(1);
  table.add(
      "predict", "requests", requests_,
      "answer requests from the standard input, one per line, such as {\"items\": [\"a\", \"b\"]}");
}

std::string SessionTask::requests_help() const {
  return RecommendationRequest::help();
}

prepare::ItemNames SessionTask::names_of_items(const std::string& file) const {
  const auto& model = arguments_.model;
  const bool newer = num_ranked_items(model) >= model.item().cardinality;
  return newer ? prepare::ItemNames::load(beside(file)("items.parquet")) : item_names(folder_);
}

void SessionTask::predict(const PredictionRequest& asked, const Run& run,
                          const options::TrainingArguments& training) {
  if (requests_) {
    refuse_unread_options(*options_);
    asked.tell(*run.notes);
    std::optional<bool> excludes;  // else as each model was evaluated that is loaded
    if (asks_to_exclude(*options_)) excludes = arguments_.ranking.exclude_seen == "true";
    return answer_requests(asked, training, {.top_k = top_k_, .exclude_seen = excludes});
  }
  take_newer_items(asked.data);
  const auto [file, data, notes] = prediction_data(asked.data, asked.rows);
  if (!data) fail<UsageError>("tasks", "the run names no evaluation data; try --data FILE.parquet");
  if (asked.to_file()) {
    check_output(asked.output, "recommendations", /*tables=*/true, inputs_of(asked, file));
  }
  const bool excludes = excludes_seen(file);
  auto job = job::join_job(training.parallel);
  const auto owner = find_owners(data::ParquetFiles(file), schema_, /*reads=*/false).column;
  RecommendationNames names;
  std::vector<std::string> targets;
  for (const auto& target : arguments_.model.targets) targets.push_back(target.column);
  std::unique_ptr<RecommendationWriter> writer;
  if (job.is_main()) {
    names = {names_of_items(file), find_owners(data::ParquetFiles(file), schema_), targets};
    if (!asked.output.empty()) writer = open_writer(asked.output, names);
  }
  train::Trainer trainer(run.factory, training, nullptr, nullptr, job, run.fill);
  trainer.load_weights(asked.folder);
  if (job.is_main()) {
    asked.tell(*run.notes);
    asked.tell(notes);
    if (!names.owners.note.empty()) asked.tell({names.owners.note});
    if (!asked.to_file()) {
      asked.tell({fmt::format("items are ranked among {}: exclude_seen = {}",
                              excludes ? "those that the person has not seen" : "all", excludes)});
    }
  }

  int64_t rows = 0;
  size_t fewest = SIZE_MAX, most = 0;  // items of a row: sessions may have seen the others
  recommend(trainer, *data,
            {arguments_.model.item_feature, owner, top_k_, asked.rows, targets,
             arguments_.model.unseen_items},
            [&](const Recommendation& row) {
              writer ? writer->write(row) : show(row, names);
              ++rows;
              fewest = std::min(fewest, row.ids.size());
              most = std::max(most, row.ids.size());
            });
  if (writer) writer->finish();
  if (!writer || !asked.to_file()) return;
  fmt::print("wrote {} ({}, {}{} each); exclude_seen = {}\n", asked.output, plural(rows, "row"),
             fewest < most ? fmt::format("{} to ", fewest) : "", plural(most, "item"), excludes);
}

}  // namespace convoy::tasks
