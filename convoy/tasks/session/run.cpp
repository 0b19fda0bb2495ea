#include "convoy/tasks/session/run.h"

#include <limits>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/piped_input.h"
#include "convoy/base/text.h"
#include "convoy/data/parquet_files.h"
#include "convoy/prepare/context.h"
#include "convoy/prepare/item_features.h"
#include "convoy/prepare/scales.h"
#include "convoy/prepare/seen.h"
#include "convoy/tasks/session/column_checks.h"
#include "convoy/tasks/session/dataset.h"
#include "convoy/tasks/session/known_items.h"
#include "convoy/tasks/session/model_features.h"
#include "convoy/tasks/session/same_ids.h"
#include "convoy/tasks/session/swap_values.h"
#include "convoy/tasks/session/unknown_rows.h"
#include "convoy/tasks/session/vector_columns.h"
#include "convoy/tasks/task.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// Sets the limits for data that a model was not trained with: their own schema tells valid ids,
/// and those that the model lacks are unknown.
void pass_over_unknown(const models::SessionConfig& model, const std::string& where,
                       data::LoaderOptions& options) {
  const auto file = beside(where)("schema.json");
  const auto own = file.empty() ? formats::Schema() : formats::Schema::load(file);
  for (const auto& feature : model.features) {
    if (!feature.categorical) continue;
    const auto* there = own.find(feature.name);
    const bool known = there != nullptr && there->int_domain;
    auto& most = options.selection.limits[feature.name].max;
    most = known ? std::max(most, there->int_domain->max) : std::numeric_limits<int64_t>::max();
  }
}

}  // namespace

bool is_table(const fs::path& file) {
  static const std::vector<std::string> kEndings{".csv",   ".tsv", ".txt",    ".gz",
                                                 ".inter", ".dat", ".parquet"};
  return std::ranges::find(kEndings, file.extension().string()) != kEndings.end();
}

void refuse_events(const std::string& where, const fs::path& ids_from) {
  std::error_code ignored;
  if (!fs::is_regular_file(where, ignored)) return;
  if (!is_table(where) || fs::path(where).extension() == ".parquet") return;
  fail<UsageError>("data",
                   "{} is a text file of events; expected sessions in Parquet; try convoy data "
                   "sessions {}{} --output sessions, and then `sessions` in its place",
                   where, where,
                   ids_from.empty() ? "" : fmt::format(" --ids-from {}", ids_from.string()));
}

data::ListLimits list_limits(const SessionArguments& arguments) {
  const bool keeps_last = arguments.data.truncation == "keep_last";
  return {.max_length = arguments.model.max_length,
          .truncation = keeps_last ? data::Truncation::KeepLast : data::Truncation::KeepFirst,
          .padded = arguments.model.item_feature};
}

std::shared_ptr<dataset::Dataset> open_sessions(const std::string& where,
                                                const SessionArguments& arguments,
                                                const formats::Schema& schema,
                                                std::vector<std::string> warnings,
                                                const MoreColumns& more) {
  const auto& [model, data] = std::tie(arguments.model, arguments.data);
  data::LoaderOptions options;
  std::vector<std::string> columns;
  for (const auto& feature : model.features) columns.push_back(feature.name);
  if (!model.time_feature.empty()) columns.push_back(model.time_feature);
  const auto& weights = model.event_weights.column;
  if (more.trains && !weights.empty() && std::ranges::count(columns, weights) == 0) {
    columns.push_back(weights);
  }
  options.selection = data::select(schema, columns);
  select_vectors(model, options.selection);
  static_cast<data::ListLimits&>(options) = list_limits(arguments);
  if (more.most_items > 0) options.max_length = std::min(options.max_length, more.most_items);
  options.last_is_target = more.evaluates;
  if (more.known) {
    const auto& known = more.known;  // whose ids live as long as all of it
    options.known = {.column = model.item_feature, .known = {known, &known->items.by_id()}};
    for (const auto& [name, ids] : known->features) {
      const bool tells = more.of_others || !ids.unseen().empty();
      if (tells) options.known.others[name] = {known, &ids.by_id()};
    }
    options.known.keeps_missed = !model.targets.empty();
    if (more.of_others) pass_over_unknown(model, where, options);
  }
  options.partition = data.partition == "rows" ? data::Partition::Rows : data::Partition::RowGroups;
  options.shuffle_window = data.shuffle_window;
  options.memory_budget = data.memory_budget_mb << 20;
  options.prefetch_depth = data.prefetch_depth;
  data::ParquetFiles dataset(where);
  const auto has_ids = [&](const std::string& name) { return data::has_numbers(dataset, name); };
  const auto select = [&](const std::string& name) {
    auto& selected = options.selection.columns;
    if (std::ranges::find(selected, name) == selected.end()) selected.push_back(name);
  };
  SeenBefore seen;
  std::string no_lists;  // why lists of persons are not used
  if (more.excluded) {
    const auto file = beside(where)(prepare::kSeenFile);
    // The target of a row whose end is cut is not the list's last item.
    const bool ends = !more.evaluates || options.truncation == data::Truncation::KeepLast;
    if (file.empty()) {
      no_lists = fmt::format("there is no {} beside {}", prepare::kSeenFile, input_name(where));
    } else if (!ends) {
      no_lists = "data.truncation = keep_first cuts what follows a target";
    } else if (!has_ids(more.owner) || !has_ids(prepare::kNumSeen)) {
      no_lists = fmt::format("{} has no {} or no column of persons", where, prepare::kNumSeen);
    } else {
      seen = {std::make_shared<prepare::SeenLists>(file), more.owner, prepare::kNumSeen};
      select(prepare::kNumSeen);
    }
    options.whole = model.item_feature;  // of a row whose owner has no list
  }
  static_assert(std::string_view(prepare::kNumContext) == models::kNumContext);
  if (more.trains) {
    const auto before = options.selection.columns.size();
    prepare::select_context(dataset, options.selection);
    if (options.selection.columns.size() > before) options.leading = prepare::kNumContext;
  }
  const bool wants_owner = !more.evaluates || seen.lists;
  if (wants_owner && has_ids(more.owner)) select(more.owner);
  if (more.answers) {
    for (const auto& target : model.targets) {
      check_answers(dataset, target);
      options.selection.columns.push_back(target.column);
    }
  }
  dataset.check(options.selection);
  check_lists(dataset, model);
  check_vectors(dataset, model);
  if (!model.time_feature.empty()) check_times(dataset, model.time_feature);
  if (more.notes != nullptr) {
    std::vector<std::string> targets;
    for (const auto& target : model.targets) targets.push_back(target.column);
    const auto unknown = survey_unknown(dataset, model.item_feature, options, seen, more.told_rows)
                             .notes(options, arguments.model.max_length, targets);
    more.notes->insert(more.notes->end(), unknown.begin(), unknown.end());
    if (!no_lists.empty()) {
      more.notes->push_back(
          fmt::format("exclude_seen leaves out the items of each row alone: {}; convoy data "
                      "sessions writes what whole histories need",
                      no_lists));
    }
  }
  return make_session_dataset(std::move(dataset), options, std::move(warnings), std::move(seen));
}

void take_swap_values(SessionArguments& arguments, const formats::Schema& schema, int64_t seed) {
  auto& model = arguments.model;
  if (model.stochastic_swap_noise == 0) return;
  const data::ParquetFiles data(arguments.data.train_file());
  check_lists(data, model);
  std::vector<std::string> columns;
  std::vector<models::SessionFeature> features;
  for (const auto& feature : model.features) {
    if (feature.width > 0) continue;  // vectors stay
    columns.push_back(feature.name);
    features.push_back(feature);
  }
  model.swap_values =
      draw_swap_values(data, data::select(schema, columns), features, seed, model.item_feature);
}

formats::Schema take_features(SessionArguments& arguments) {
  const auto& data = arguments.data;
  if (data.train_file().empty()) {
    fail<UsageError>("data",
                     "there is no training data; expected data.path or data.train; try "
                     "--data.path FOLDER");
  }
  for (const auto& where : {data.path, data.train, data.valid}) {
    refuse_events(where, arguments.model_name_or_path);
  }
  if (fs::is_regular_file(data.path)) {
    fail<UsageError>("data",
                     "data.path = {} is a file; expected the folder of sessions that convoy data "
                     "sessions {} --output sessions writes, or --data.train for a file of sessions",
                     data.path, data.path);
  }
  if (!data.path.empty() && !fs::exists(data.path)) {
    fail<FileError>("data", "data.path = {} is not there; try another folder", data.path);
  }
  auto schema = formats::Schema::load(data.schema_file());
  auto& model = arguments.model;
  model.item_feature = schema.item_id().name;
  model.features = model_features(data, model, schema);
  model.time_feature = time_feature(model, schema);
  model.check();
  return schema;
}

std::string names_file(const std::string& feature) {
  constexpr std::string_view kList = "-list";
  const auto column = std::string_view(feature);
  const auto base =
      column.ends_with(kList) ? column.substr(0, column.size() - kList.size()) : column;
  return std::string(base) + ".parquet";
}

train::ModelFiles session_files(const SessionArguments& arguments, const formats::Schema& schema) {
  train::ModelFiles files;
  files.config = arguments.model.to_json();
  files.texts["schema.json"] = schema.to_json();
  const auto& data = arguments.data;
  files.looked_for = {"items.parquet", prepare::kScalesFile, kUnseenFile};
  for (const auto& feature : arguments.model.features) {
    if (!feature.categorical || feature.name == arguments.model.item_feature) continue;
    files.looked_for.push_back(names_file(feature.name));
  }
  if (!arguments.model.item_tower.empty()) {
    for (const char* name : {prepare::kItemFeaturesFile, prepare::kItemFeaturesInfo}) {
      files.looked_for.emplace_back(name);
    }
  }
  uint64_t sum = 0;
  for (const auto& name : files.looked_for) {
    const auto file = data.beside_schema(name);
    if (file.empty()) continue;
    files.copies.emplace_back(file);
    const auto bytes = read_regular_file(file);
    sum = sum * 31 + checksum(bytes.data(), bytes.size(), 1, 0);
  }
  if (!files.copies.empty()) files.encoding = fmt::format("item ids {:016x}", sum);
  files.inputs = {data.schema_file(), data.train_file(), data.valid_file()};
  return files;
}

formats::Schema open_session_model(const fs::path& folder, SessionArguments& arguments,
                                   OptionTable& table) {
  const auto config = open_trained(folder, table);
  arguments.model.read_json(config, (folder / "config.json").string());
  return formats::Schema::load(folder / "schema.json");
}

}  // namespace convoy::tasks
