#include "convoy/tasks/task.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/models/causal.h"
#include "convoy/tasks/classification/task.h"
#include "convoy/tasks/language/task.h"
#include "convoy/tasks/pretrained.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// What tells the family of a model.
struct Clues {
  std::string family;
  std::string task;   ///< "classification", "language" or not said
  std::string start;  ///< folder of a model
  std::string config_name;
};

/// What these names of one option give it in `arguments`, or "".
std::string typed_value(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& names) {
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
    if (!first.empty() && here != value) {
      fail<UsageError>("tasks", "{} {} and {} {} contradict each other; try one of them", first,
                       value, word, here);
    }
    first = word;
    value = here;
  }
  return value;
}

/// What a config.json says.
Clues clues_of(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  const auto json = parse_json(read_file(file), file.string());
  if (!json.is_object()) {
    fail<FileError>("tasks", "{} is no JSON object; expected the config of a model", file.string());
  }
  Clues out;
  out.family = text_of(json, "model_type");
  const auto classes = json.value("architectures", Json());
  if (!classes.is_array() || classes.empty() || !classes[0].is_string()) return out;
  const bool sorts = classes[0].get<std::string>().ends_with("ForSequenceClassification");
  out.task = sorts ? "classification" : "language";
  return out;
}

/// What the TOML of a run says; `opens`: of one that was trained.
Clues clues_of_toml(const fs::path& file, bool opens) {
  const auto values = toml_texts(file);
  const auto value = [&](const char* key, const char* alias = "") {
    const auto found = values.find(key);
    const auto other = values.find(alias);
    return found != values.end() ? found->second : other != values.end() ? other->second : "";
  };
  Clues out{value("model.family", "model.model_type"), value("model.task"), "", ""};
  if (opens) return out;
  out.start = value("model.start", "model.model_name_or_path");
  out.config_name = value("model.config_name");
  return out;
}

void take(Clues& clues, const Clues& more) {
  if (clues.family.empty()) clues.family = more.family;
  if (clues.task.empty()) clues.task = more.task;
  if (clues.start.empty()) clues.start = more.start;
  if (clues.config_name.empty()) clues.config_name = more.config_name;
}

Clues clues_in(const std::vector<std::string>& arguments) {
  Clues clues;
  take(clues, {typed_value(arguments, {"family", "model_type"}), typed_value(arguments, {"task"}),
               typed_value(arguments, {"start", "model_name_or_path"}),
               typed_value(arguments, {"config_name"})});
  const bool opens = !arguments.empty() && (arguments[0] == "eval" || arguments[0] == "predict" ||
                                            arguments[0] == "generate");
  std::error_code error;
  for (size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    const fs::path place = arguments[i];
    if (place.extension() == ".toml" && fs::is_regular_file(place, error)) {
      take(clues, clues_of_toml(place, /*opens=*/false));
    } else if (opens && fs::is_regular_file(place / "config.json", error)) {
      take(clues, clues_of(place / "config.json"));
      take(clues, clues_of_toml(place / "run.toml", /*opens=*/true));
    }
  }
  const bool starts = !clues.start.empty();
  const auto& named = starts ? clues.start : clues.config_name;
  if (named.empty()) return clues;
  const auto file = starts ? fs::path(named) / "config.json" : config_file(named);
  take(clues, clues_of(file));
  if (clues.family.empty() && fs::is_regular_file(file, error)) {
    fail<FileError>("tasks",
                    "{}: model_type is missing; expected one of {}; add it, or try --model_type "
                    "FAMILY",
                    file.string(), join(models::causal_families()));
  }
  if (clues.family.empty()) {
    fail<UsageError>("tasks",
                     "{} = {} is no folder with config.json; names of models on a hub are not "
                     "fetched: download it, then give its folder",
                     starts ? "model_name_or_path" : "config_name", named);
  }
  return clues;
}

}  // namespace

void add_data_commands(CLI::App& data, Work& work) {
  add_session_commands(data, work);
  add_language_commands(data, work);
}

std::vector<std::string> families() {
  std::vector<std::string> all{"session"};
  for (const auto& family : models::causal_families()) all.push_back(family);
  return all;
}

std::unique_ptr<Task> find_task(const std::vector<std::string>& arguments) {
  const auto clues = clues_in(arguments);
  const auto& family = clues.family;
  if (clues.task == "classification") {
    if (family.empty() || family == "bert") return std::make_unique<ClassificationTask>();
    fail<UsageError>("tasks", "task = classification is for the family bert; got {}", family);
  }
  if (family.empty() || family == "session" || family == "convoy_session") {
    return std::make_unique<SessionTask>();
  }
  const auto& causal = models::causal_families();
  if (std::find(causal.begin(), causal.end(), family) != causal.end()) {
    return std::make_unique<LanguageTask>(family);
  }
  fail<UsageError>("tasks", "model family '{}' is unknown; expected one of {}{}", family,
                   join(families()), did_you_mean(family, families()));
}

}  // namespace convoy::tasks
