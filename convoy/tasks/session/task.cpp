#include "convoy/tasks/session/task.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/data/parquet_files.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/prepare/seen.h"
#include "convoy/tasks/memory.h"
#include "convoy/tasks/random_data.h"
#include "convoy/tasks/session/dataset.h"
#include "convoy/tasks/session/effects.h"
#include "convoy/tasks/session/event_weights.h"
#include "convoy/tasks/session/first_weights.h"
#include "convoy/tasks/session/inherited_options.h"
#include "convoy/tasks/session/item_tower.h"
#include "convoy/tasks/session/pretrained_vectors.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/row_owners.h"
#include "convoy/tasks/session/same_ids.h"
#include "convoy/tasks/session/session_metrics.h"
#include "convoy/tasks/session/training_defaults.h"
#include "convoy/tasks/session/training_rows.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

BesideData beside_schema(const DataArguments& data) {
  return [&data](const std::string& name) { return data.beside_schema(name); };
}

/// File with names and counts of a run's items, which is beside its checkpoints or one folder
/// above.
std::string items_of_run(const std::filesystem::path& folder) {
  const auto own = folder / "items.parquet";
  return (std::filesystem::exists(own) ? own : folder / ".." / "items.parquet").string();
}

/// Removes a run's places of data where --data.path or --windows was typed, as a run over windows
/// names each file.
void replace_places(OptionTable& table) {
  const auto typed = [&](const char* key) {
    const auto* option = table.find(key);
    return option->typed && !option->plain().empty();
  };
  const bool path = typed("data.path"), windows = typed("data.windows");
  if (!path && !windows) return;
  const auto drop = [&](const std::vector<std::string>& keys) {
    for (const auto& key : keys) {
      if (table.asked_for(key) && !table.find(key)->typed) table.reset({key});
    }
  };
  if (table.asked_for("data.train") && !table.find("data.train")->typed) drop({"data.schema"});
  drop({"data.path", "data.train", "data.valid"});
  if (!windows) drop(kWindowOptions);
}

/// Whether the items beside `file` are in another list of items than `items`.
bool has_other_items(const fs::path& items, const std::string& file) {
  const auto own = beside(file)("items.parquet");
  return !own.empty() && !same_file(items, own);
}

/// Whether a model's evaluation may ask at the target's time or at that of the last event.
bool has_eval_time(const models::SessionConfig& model) {
  return model.reads_times() && model.hstu_time == "next";
}

}  // namespace

std::vector<std::string> SessionTask::usual_trials(const options::TrainingArguments&) const {
  return {"learning_rate=3e-4..1e-2", "dropout=0.0..0.4", "d_model=32,64,128",
          "body=sasrec,gpt2,ligr"};
}

void SessionTask::set_defaults(options::TrainingArguments& training) const {
  set_session_defaults(training);
}

void SessionTask::check_config(const std::string& file) const {
  if (!is_table(file)) return;
  fail<UsageError>("tasks",
                   "{} is a table, not the TOML file of a run; try convoy data sessions {} "
                   "--output sessions for a table of events, and --data.path sessions",
                   file, file);
}

void SessionTask::settle(OptionTable& table) {
  replace_places(table);
  arguments_.apply_parity(table);
  set_initial_weights(arguments_.model, table);
  settle_max_length(arguments_, table);
  settle_exclude_seen(arguments_, table);
  arguments_.take_tasks();
  check_effects(arguments_, table);
  const auto& data = arguments_.data;
  if (data.windows.empty() && data.valid_file().empty()) set_no_evaluation(table);
  arguments_.ranking.top_k_values();
  arguments_.ranking.baseline_values();
  if (const auto* seed = table.find("train.seed")) parse_number(seed->plain(), seed_);
}

Run SessionTask::run(std::shared_ptr<dataset::Dataset> train_data, train::ModelFiles files) {
  Run out;
  notes_ = out.notes;
  // Options of eval and export are read after the run is opened.
  out.factory = [model = arguments_.model, &now = arguments_.model] {
    auto taken = model;
    taken.eval_time = now.eval_time;
    taken.eval_list = now.eval_list;
    taken.item_values = now.item_values;
    taken.unseen_items = now.unseen_items;
    taken.predicts_states = now.predicts_states;
    return models::make_session_model(taken);
  };
  out.train_data = std::move(train_data);
  out.files = std::move(files);
  const auto& ranking = arguments_.ranking;
  // Reads the options when it is called, as eval's are read after the run is opened.
  out.scorer = [this, &ranking, &model = arguments_.model, excludes = excludes_] {
    const bool other_names = ranking.metric_names == "transformers4rec";
    std::map<std::string, double> settings{{train::kExcludeSeen, *excludes ? 1 : 0}};
    if (has_eval_time(model)) {
      settings[train::kTargetTime] = model.eval_time == "target" ? 1 : 0;
    }
    return std::make_unique<SessionMetrics>(RankingMetrics(ranking.top_k_values(), other_names),
                                            model.targets, std::move(settings), baselines_,
                                            evaluated_);
  };
  return out;
}

Run SessionTask::prepare(const options::ParallelArguments& parallel) {
  schema_ = take_features(arguments_);
  take_event_weights(arguments_, schema_);
  const auto vectors = take_pretrained(arguments_);
  take_item_tower(arguments_);
  check_memory(arguments_.model, arguments_.data.schema_file(), parallel);
  if (!arguments_.data.valid_file().empty()) {
    check_memory_of(arguments_.ranking.baseline_values(), arguments_.model.item().cardinality - 1,
                    machine::available_memory());
  }
  const auto train_file = arguments_.data.train_file();
  std::vector<std::string> notes;
  if (use_random_data(train_file, parallel, arguments_.model.max_length, notes)) {
    arguments_.model.stochastic_swap_noise = 0;  // takes no memory, and values from the file
    auto out = run(make_random_sessions(arguments_.model), {});
    out.valid_data = out.train_data;
    *out.notes = std::move(notes);
    return out;
  }
  take_swap_values(arguments_, schema_, seed_);
  auto warnings = arguments_.warnings;
  if (arguments_.model.sees_targets()) {
    warnings.push_back(
        "model.attn_type = bi lets positions attend to the items that they predict, in evaluation "
        "too: losses and metrics do not show how well the model predicts; use uni");
  }
  warnings.insert(warnings.end(), schema_.warnings.begin(), schema_.warnings.end());
  auto train_data = open_sessions(train_file, arguments_, schema_, warnings, {.trains = true});
  std::vector<std::string> told;
  survey(vectors, told);
  auto out = run(std::move(train_data), session_files(arguments_, schema_));
  if (!arguments_.data.items_file().empty()) out.files.texts[kUnseenFile] = known_->to_json();
  out.files.texts[kCountsFile] = to_json(counts_);
  const auto valid = evaluation_data("");
  out.valid_data = valid.data;
  *out.notes = std::move(told);
  if (!valid.data) out.notes->push_back("nothing is evaluated: there are no validation rows");
  out.notes->insert(out.notes->end(), valid.notes.begin(), valid.notes.end());
  if (!vectors.empty()) out.fill = fill_with(vectors);
  if (const auto& earlier = arguments_.model_name_or_path; !earlier.empty()) {
    out.fill = fill_from(earlier, arguments_.model, beside_schema(arguments_.data), vectors);
  }
  return out;
}

void SessionTask::survey(const PretrainedVectors& vectors, std::vector<std::string>& notes) {
  auto& model = arguments_.model;
  const auto& train_file = arguments_.data.train_file();
  const int64_t num_ids = model.item().cardinality;
  const auto rows = survey_training(data::ParquetFiles(train_file), model, list_limits(arguments_));
  if (rows.cut_rows > 0) notes.push_back("warning: " + rows.warning(model.max_length));
  if (rows.short_rows > 0) {
    notes.push_back(fmt::format("{} of {} rows have fewer than two items and train nothing",
                                human_count(rows.short_rows), human_count(rows.num_rows)));
  }
  if (rows.context_items > 0) {
    notes.push_back(fmt::format(
        "{} of {} items that are read are context of the rows: events before theirs, which train "
        "nothing themselves",
        human_count(rows.context_items), human_count(rows.num_items - rows.cut_items)));
  }
  if (!rows.weights_note.empty()) notes.push_back(rows.weights_note);
  const bool all = arguments_.data.items_file().empty();
  // Items with pretrained vectors are known even if training does not see them, where the head
  // reads the vectors.
  const bool has_items = vectors.contains(model.item_feature) && model.weight_tying;
  KnownIdsOfModel known{all || has_items ? KnownItems(num_ids) : KnownItems(rows.seen), {}};
  for (const auto& [name, seen] : rows.seen_values) {
    const bool has_all = all || vectors.contains(name);
    known.features.emplace(name, has_all ? KnownItems(std::ssize(seen)) : KnownItems(seen));
  }
  for (const auto& folder : {fs::path(arguments_.model_name_or_path), earlier_}) {
    if (folder.empty()) continue;
    const auto had = ids_in(folder, model);
    const auto before = KnownIdsOfModel::of_run(folder, had);
    int64_t first = 0;
    for (int64_t id = 1; id < num_ids; ++id) {
      first += rows.seen[static_cast<size_t>(id)] && !before.items.knows(id);
    }
    known.items.add(before.items);
    for (auto& [name, values] : known.features) values.add(before.features.at(name));
    if (!earlier_.empty() && folder != earlier_) continue;
    const auto num_new = std::max<int64_t>(0, num_ids - had.item().cardinality);
    notes.push_back(fmt::format(
        "begins with the weights of {}; {} of {} items are new, training sees {} for "
        "the first time",
        folder.string(), human_count(num_new), human_count(num_ids - 1), human_count(first)));
    for (const auto& feature : model.features) {
      if (!feature.categorical || feature.name == model.item_feature) continue;
      const auto earlier =
          std::ranges::find(had.features, feature.name, [](const auto& one) { return one.name; });
      const auto added = feature.cardinality - earlier->cardinality;
      if (added <= 0) continue;
      notes.push_back(fmt::format("{} of {} {} new", human_count(added),
                                  plural(feature.cardinality - 1, "value") + " of " + feature.name,
                                  added == 1 ? "is" : "are"));
    }
    if (!all && kept_file(folder, kUnseenFile).empty()) {
      notes.push_back(
          fmt::format("{} does not tell which items its training saw ({}): all of "
                      "them count as seen",
                      folder.string(), kUnseenFile));
    }
  }
  counts_ = rows.counts;
  // The window before has counted what the first window began with.
  const auto folder = earlier_.empty() ? fs::path(arguments_.model_name_or_path) : earlier_;
  const auto before = folder.empty() ? std::vector<int64_t>() : kept_counts(folder);
  for (size_t id = 0; id < std::min(before.size(), counts_.size()); ++id) counts_[id] += before[id];
  if (model.negative_sampling == "popularity") model.item_counts = counts_;
  if (model.has_in_batch_negatives()) model.item_counts = rows.target_counts;
  model.unseen_items = known.items.unseen();
  settle_item_tower(arguments_, folder, model, known);
  known_ = std::make_shared<const KnownIdsOfModel>(std::move(known));
}

Run SessionTask::open(const std::filesystem::path& folder, OptionTable& table) {
  schema_ = open_session_model(folder, arguments_, table);
  folder_ = folder;
  options_ = &table;
  trained_length_ = arguments_.model.max_length;
  auto known = KnownIdsOfModel::of_run(folder, arguments_.model);
  arguments_.model.unseen_items = known.items.unseen();
  open_item_tower(folder, beside_nothing(), arguments_.model, known);
  known_ = std::make_shared<const KnownIdsOfModel>(std::move(known));
  counts_ = kept_counts(folder);
  auto out = run(nullptr, {});
  out.fill = [folder](parallel::Replica& model) {
    checkpoint::load_weights(folder, model.weights(), model.world());
  };
  return out;
}

bool SessionTask::excludes_seen(const std::string& file) const {
  const auto& said = arguments_.ranking.exclude_seen;
  if (said != "auto") return said == "true";
  return prepare::decided_to_exclude(beside(file)(prepare::kDecisionsFile));
}

NamedData SessionTask::open_data(const std::string& where, const SessionArguments& arguments,
                                 MoreColumns more) const {
  const auto file = where.empty() ? arguments.data.valid_file() : rows_in(where);
  const auto& path = arguments.data.path;
  if (file.empty() && !path.empty() && !std::filesystem::exists(path)) {
    fail<FileError>("data", "{}, where the run had its data, is not there; try --data FOLDER",
                    path);
  }
  if (file.empty()) return {};
  const fs::path items = arguments.data.items_file();
  refuse_events(file, folder_.empty() || items.empty() ? folder_ : items.parent_path());
  if (trained_length_ > 0 && arguments.model.max_length > trained_length_) {
    fail<UsageError>("data",
                     "max_length = {} is beyond the {} positions that the model was trained with; "
                     "try a smaller one",
                     arguments.model.max_length, trained_length_);
  }
  // A file apart from the training data may have its own list of items, with more of them than the
  // schema knows.
  const bool apart = folder_.empty() && !items.empty() && has_other_items(items, file);
  if (!folder_.empty() || apart) {
    check_same_ids(apart ? items.parent_path() : folder_, arguments.model, beside(file));
  }
  NamedData out{file, nullptr};
  if (fs::path(file).filename() == "train.parquet" && fs::is_directory(where)) {
    out.notes.push_back(
        fmt::format("{} has no valid.parquet: the rows of train.parquet are read", where));
  }
  more.owner = more.evaluates
                   ? owner_column(schema_)
                   : find_owners(data::ParquetFiles(file), schema_, /*reads=*/false).column;
  more.excluded = excludes_seen(file);
  more.of_others = !folder_.empty() || apart;
  if (more.of_others || !known_->all()) more.known = known_;
  more.notes = &out.notes;
  out.data = open_sessions(file, arguments, schema_, {}, more);
  return out;
}

BaselineData SessionTask::baseline_data(const std::string& file) const {
  const auto& [model, data] = std::tie(arguments_.model, arguments_.data);
  BaselineData out{.baselines = arguments_.ranking.baseline_values(),
                   .counts = counts_,
                   .train = data.train_file(),
                   .items = folder_.empty() ? data.items_file() : items_of_run(folder_),
                   .valid = file,
                   .item_column = model.item_feature,
                   .num_items = num_ranked_items(model),
                   .top_ks = arguments_.ranking.top_k_values()};
  try {
    if (!folder_.empty()) check_same_ids(folder_, model, beside(out.train));
  } catch (const Error&) {  // prepared anew since: its ids are other items
    out.train = "";
  }
  const bool ends = data.truncation == "keep_last";
  out.rows.max_length = ends ? 0 : model.max_length;
  out.rows.new_ids = true;
  if (known_) out.rows.candidates = known_->items.by_id();
  out.rows.exclude_seen = *excludes_;
  if (ends) out.seen = beside(file)(prepare::kSeenFile);
  out.rows.owner_column = owner_column(schema_);
  return out;
}

NamedData SessionTask::evaluation_data(const std::string& where) {
  take_newer_items(where);
  auto out = open_data(where, arguments_, {.evaluates = true});
  baselines_ = nullptr;
  if (!out.data) return out;
  *excludes_ = excludes_seen(out.name);
  const auto& model = arguments_.model;
  baselines_ = std::make_shared<Baselines>(baseline_data(out.name));
  if (notes_ && has_eval_time(model)) {
    const bool last = model.eval_time == "last";
    auto note = fmt::format("evaluations ask for the next item at the time of {} (--eval_time {})",
                            last ? "the session's last event, as serving does"
                                 : "the target, which serving does not know",
                            model.eval_time);
    if (std::ranges::count(*notes_, note) == 0) notes_->push_back(std::move(note));
  }
  return out;
}

NamedData SessionTask::prediction_data(const std::string& where, int64_t rows) const {
  auto arguments = arguments_;
  arguments.data.truncation = "keep_last";  // what follows a session follows its end
  auto trained = arguments.model;
  if (trained_length_ > 0) trained.max_length = trained_length_;
  return open_data(
      where, arguments,
      {.answers = false, .most_items = trained.prediction_length(), .told_rows = rows});
}

std::string SessionTask::baseline() {
  const auto file = arguments_.data.valid_file();
  if (file.empty()) return "";
  auto data = baseline_data(file);
  data.top_ks = {10};
  data.baselines = {{kPopularity}};
  const auto metrics = baselines_if_any(data);
  if (metrics.empty()) return "";
  return fmt::format(
      "popularity baseline (the same items for everyone{}): NDCG@10 {:.4f}, Recall@10 {:.4f}",
      *excludes_ ? ", unseen ones" : "", metrics.at("popularity_baseline_ndcg_at_10"),
      metrics.at("popularity_baseline_recall_at_10"));
}

}  // namespace convoy::tasks
