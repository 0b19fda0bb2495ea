#include "convoy/tasks/task.h"

#include <algorithm>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/carried.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/models/language_model.h"
#include "convoy/models/session/session.h"
#include "convoy/models/wrapper.h"
#include "convoy/tasks/chat/task.h"
#include "convoy/tasks/classification/task.h"
#include "convoy/tasks/language/task.h"
#include "convoy/tasks/lora.h"
#include "convoy/tasks/preference/task.h"
#include "convoy/tasks/pretrained.h"
#include "convoy/tasks/session/task.h"
#include "convoy/tasks/unread_options.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

std::vector<TaskKind>& kinds() {
  static std::vector<TaskKind> all{
      {"session", [] { return std::vector<std::string>{"session"}; },
       [](const std::string&) { return std::make_unique<SessionTask>(); }, false,
       add_session_commands},
      {"classification", [] { return std::vector<std::string>{"bert"}; },
       [](const std::string&) { return std::make_unique<ClassificationTask>(); }, true},
      {"chat", ChatTask::families,
       [](const std::string& family) { return std::make_unique<ChatTask>(family); }, true},
      {"preference", ChatTask::families,
       [](const std::string& family) { return std::make_unique<PreferenceTask>(family); }, true},
      {"language", models::language_families,
       [](const std::string& family) { return std::make_unique<LanguageTask>(family); }, false,
       add_language_commands}};
  return all;
}

bool takes(const TaskKind& kind, const std::string& family) {
  const auto known = kind.families();
  return std::find(known.begin(), known.end(), family) != known.end();
}

/// Detected values that decide the family of a model.
struct Detection {
  std::string family;
  std::string task;   ///< name of a TaskKind or not said
  std::string start;  ///< folder of a model
  std::string config_name;
  std::string adapter;  ///< folder of an adapter to go on from
};

bool is_number(const std::string& text) {
  int64_t number = 0;
  return parse_number(text, number);
}

/// Typed value of an option by any of these names, or ""; numbers count unless `texts_only`.
std::string typed_value(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& names, bool texts_only = false) {
  std::string first, value;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto equals = arguments[i].find('=');
    const auto word = arguments[i].substr(0, equals);
    auto name = word;
    std::replace(name.begin(), name.end(), '-', '_');
    const bool wanted = std::any_of(names.begin(), names.end(), [&](const std::string& one) {
      return name == "__" + one || name == "__model." + one;
    });
    if (!wanted || (equals == std::string::npos && i + 1 == arguments.size())) continue;
    const auto here =
        equals == std::string::npos ? arguments[i + 1] : arguments[i].substr(equals + 1);
    if (texts_only && is_number(here)) continue;
    if (!first.empty() && here != value) {
      fail<UsageError>("tasks", "{} {} and {} {} contradict each other; try one of them", first,
                       value, word, here);
    }
    first = word;
    value = here;
  }
  return value;
}

/// Family and task that a config.json names.
Detection detect_in_config(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  const auto json = parse_json(read_file(file), file.string());
  if (!json.is_object()) {
    fail<FileError>("tasks", "{} is no JSON object; expected the config of a model", file.string());
  }
  Detection out;
  out.family = models::family_of(json, file.string());
  const auto classes = json.value("architectures", Json());
  if (!classes.is_array() || classes.empty() || !classes[0].is_string()) return out;
  const bool sorts = classes[0].get<std::string>().ends_with("ForSequenceClassification");
  out.task = sorts ? "classification" : "language";
  return out;
}

/// Family, task and folders that a run's TOML names; `opens`: the run was trained.
Detection detect_in_toml(const fs::path& file, bool opens) {
  const auto values = toml_values(file);
  const auto value = [&](const char* key, const char* alias = "") {
    const auto found = values.find(key);
    const auto other = values.find(alias);
    return found != values.end() ? found->second : other != values.end() ? other->second : "";
  };
  Detection out{value("model.family", "model.model_type"), value("model.task"), "", "", ""};
  if (opens) return out;
  out.adapter = value("model.adapter_name_or_path");
  out.start = value("model.start", "model.model_name_or_path");
  out.config_name = value("model.config_name");
  return out;
}

void take(Detection& detected, const Detection& more) {
  if (detected.family.empty()) detected.family = more.family;
  if (detected.task.empty()) detected.task = more.task;
  if (detected.start.empty()) detected.start = more.start;
  if (detected.config_name.empty()) detected.config_name = more.config_name;
  if (detected.adapter.empty()) detected.adapter = more.adapter;
}

/// Typed model to start from. A number is no model: it is the window of data that training starts
/// with.
std::string typed_start(const std::vector<std::string>& arguments) {
  return typed_value(arguments, {"start", "model_name_or_path"}, /*texts_only=*/true);
}

/// Throws FileError where nothing names the family of the model that `config` describes.
void expect_family(const Detection& detected, const fs::path& config) {
  if (!detected.family.empty()) return;
  fail<FileError>("tasks",
                  "{}: model_type is missing; expected one of {}; add it, or try --model_type "
                  "FAMILY",
                  config.string(), join(models::language_families()));
}

Detection detect(const std::vector<std::string>& arguments, bool opens) {
  Detection detected;
  take(detected,
       {typed_value(arguments, {"family", "model_type"}), typed_value(arguments, {"task"}),
        typed_start(arguments), typed_value(arguments, {"config_name"}),
        typed_value(arguments, {"adapter_name_or_path"})});
  std::error_code error;
  for (size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    const fs::path place = arguments[i];
    if (place.extension() == ".toml" && fs::is_regular_file(place, error)) {
      take(detected, detect_in_toml(place, /*opens=*/false));
    } else if (const auto config = checkpoint::config_folder(place) / "config.json";
               opens && fs::is_regular_file(config, error)) {
      auto own = detect_in_config(config);
      const auto said = detect_in_toml(place / "run.toml", /*opens=*/true);
      // A model that was trained on conversations is a language model to config.json.
      if (own.task == "language" && !said.task.empty()) own.task = said.task;
      take(detected, own);
      take(detected, said);
      expect_family(detected, config);
    }
  }
  if (detected.start.empty() && !detected.adapter.empty()) {
    detected.start = checkpoint::read_adapter_config(detected.adapter).base;
    checkpoint::check_base(detected.start, detected.adapter);
  }
  const bool starts = !detected.start.empty();
  const auto& named = starts ? detected.start : detected.config_name;
  if (named.empty()) return detected;
  if (starts) Lora::check_is_model(named);
  const auto file = starts ? fs::path(named) / "config.json" : config_file(named);
  take(detected, detect_in_config(file));
  if (fs::is_regular_file(file, error)) expect_family(detected, file);
  if (detected.family.empty()) {
    fail<UsageError>("tasks",
                     "{} = {} is no folder with config.json; names of models on a hub are not "
                     "fetched: download it, then give its folder",
                     starts ? "model_name_or_path" : "config_name", named);
  }
  return detected;
}

/// Folder of the last window that ended, in a training over windows.
std::optional<fs::path> last_window(const fs::path& folder) {
  std::optional<fs::path> out;
  int64_t last = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    int64_t number = 0;
    const bool is_run = parse_number(entry.path().filename().string(), number) &&
                        fs::exists(entry.path() / "config.json", error);
    if (!is_run || number <= last) continue;
    last = number;
    out = entry.path();
  }
  return out;
}

/// Description of a folder without a trained model, as the end of a message.
std::string what_is_there(const fs::path& folder) {
  if (fs::exists(folder / "model.safetensors")) {
    return "; its weights are of a module of your own; evaluate it in the program that trained it";
  }
  if (const auto latest = checkpoint::latest_checkpoint(folder)) {
    return "; that run has not ended; try its checkpoint " + latest->string();
  }
  if (const auto window = last_window(folder)) {
    return "; each of its windows is a run; try " + window->string();
  }
  return "";
}

/// Whether an option has an effect on training alone.
bool is_of_training(const std::string& key, const OptionTable& table) {
  const auto* option = table.find(key);
  if (option == nullptr) return false;
  return option->section == "parallel" ||
         (option->section == "train" && !read_without_training(*option));
}

/// Reads a run's options, also of a run with an optimizer or a schedule that this program does not
/// have: it can be evaluated.
void read_run(const fs::path& file, OptionTable& table) {
  try {
    return table.read_toml(file);
  } catch (const UsageError& error) {
    const auto values = toml_values(file);
    if (values.empty()) throw;
    for (const auto& [key, value] : values) {
      try {
        table.set(key, value, file.string());
      } catch (const UsageError&) {
        if (!is_of_training(key, table)) throw UsageError(error);  // it knows the line
      }
    }
  }
}

}  // namespace

std::vector<std::string> Task::usual_trials(const options::TrainingArguments& training) const {
  constexpr double kTimes = 5;
  const double rate = training.learning_rate;
  return {fmt::format("learning_rate={:g}..{:g}", rate / kTimes, rate * kTimes)};
}

void Task::ask_details(const EvaluationDetails& details) {
  if (!details.any()) return;
  fail<UsageError>("tasks",
                   "--segments, --metrics all, --bootstrap and the comparison of two runs are for "
                   "session models; got a {}; try convoy eval without them",
                   name());
}

std::string Task::split_of(const std::string& where, const std::string& split) {
  if (split == "valid") return where;
  fail<UsageError>("tasks", "--split {} is for session models; got a {}; try --data FILE", split,
                   name());
}

Json open_trained(const fs::path& folder, OptionTable& table) {
  const auto config = checkpoint::config_folder(folder) / "config.json";
  if (!fs::exists(config)) {
    fail<UsageError>(
        "train",
        "{} holds no trained model; expected config.json and model.safetensors, as in the "
        "output.dir of convoy train{}",
        folder.string(), what_is_there(folder));
  }
  if (fs::exists(folder / "run.toml")) read_run(folder / "run.toml", table);
  return checkpoint::read_config(config);
}

void add_task(TaskKind kind) {
  for (const auto& other : kinds()) {
    internal_check(other.name != kind.name, "tasks", "there is a task {} already", kind.name);
  }
  kinds().push_back(std::move(kind));
}

void add_data_commands(CLI::App& data, Work& work) {
  for (const auto& kind : kinds()) {
    if (kind.add_data_commands) kind.add_data_commands(data, work);
  }
}

std::vector<std::string> families() {
  std::vector<std::string> all;
  for (const auto& kind : kinds()) {
    if (kind.by_name) continue;
    for (auto& family : kind.families()) all.push_back(std::move(family));
  }
  return all;
}

std::vector<std::pair<std::string, std::string>> tasks_by_name() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& kind : kinds()) {
    if (!kind.by_name) continue;
    for (auto& family : kind.families()) all.emplace_back(kind.name, std::move(family));
  }
  return all;
}

std::unique_ptr<Task> find_task(const std::vector<std::string>& arguments, bool opens) {
  auto [family, task, start, config_name, adapter] = detect(arguments, opens);
  for (const auto& kind : kinds()) {
    if (!kind.by_name || kind.name != task) continue;
    if (takes(kind, family)) return kind.make(family);
    if (family.empty()) return kind.make(kind.families().front());
    fail<UsageError>("tasks", "task = {} is for the family {}; got {}", task, join(kind.families()),
                     family);
  }
  if (family.empty() || family == models::kSessionModelType) family = "session";
  for (const auto& kind : kinds()) {
    if (!kind.by_name && takes(kind, family)) return kind.make(family);
  }
  const auto& named = start.empty() ? config_name : start;
  fail<UsageError>("tasks", "model family '{}'{} is unknown; expected one of {}{}", family,
                   named.empty() ? "" : " of " + named, join(families()),
                   did_you_mean(family, families()));
}

bool needs_own_data(const std::filesystem::path& config) {
  return detect_in_config(config).family == models::kSessionModelType;
}

}  // namespace convoy::tasks
