#include "convoy/checkpoint/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/base_fingerprint.h"
#include "convoy/checkpoint/folder.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

std::regex regex_of(const std::string& text) {
  try {
    return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    fail<UsageError>("lora", "'{}' is no regular expression: {}", text, error.what());
  }
}

/// Value of the pattern that matches a module as in PEFT: by the end of its name.
template <class Value>
Value by_pattern(const std::map<std::string, Value>& patterns, const std::string& module,
                 Value usual) {
  for (const auto& [pattern, value] : patterns) {
    if (std::regex_match(module, regex_of("(.*\\.)?(" + pattern + ")"))) return value;
  }
  return usual;
}

bool says_nothing(const Json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

std::vector<std::string> texts_of(const Json& value, const char* key, const std::string& where) {
  std::vector<std::string> out;
  if (value.is_null()) return out;
  const bool fits =
      value.is_string() ||
      (value.is_array() &&
       std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); }));
  if (!fits) fail<FileError>("lora", "{}: {} = {}; expected names", where, key, value.dump());
  for (const auto& one : value.is_string() ? Json::array({value}) : value) {
    out.push_back(one.get<std::string>());
  }
  return out;
}

/// Keys that have no effect on numbers here.
const std::set<std::string>& known_keys() {
  static const std::set<std::string> kKnown{"alpha_pattern",
                                            "auto_mapping",
                                            "base_model_name_or_path",
                                            "bias",
                                            "fan_in_fan_out",
                                            "inference_mode",
                                            "init_lora_weights",
                                            "lora_alpha",
                                            "lora_dropout",
                                            "megatron_core",
                                            "modules_to_save",
                                            "peft_type",
                                            "peft_version",
                                            "qalora_group_size",
                                            "r",
                                            "rank_pattern",
                                            "revision",
                                            "runtime_config",
                                            "target_modules",
                                            "task_type",
                                            "use_rslora"};
  return kKnown;
}

void check_keys(const Json& json, const std::string& where) {
  if (const auto type = json.value("peft_type", Json("LORA")); type != "LORA") {
    fail<FileError>("lora", "{}: peft_type = {}; expected LORA", where, type.dump());
  }
  const auto init = json.value("init_lora_weights", Json(true));
  const bool plain = init.is_boolean() || init == "gaussian";
  std::vector<std::string> wrong;
  if (!plain) wrong.push_back("init_lora_weights = " + init.dump());
  if (const auto bias = json.value("bias", Json("none")); bias != "none") {
    wrong.push_back("bias = " + bias.dump());
  }
  for (const auto& [key, value] : json.items()) {
    if (known_keys().contains(key) || says_nothing(value)) continue;
    wrong.push_back(key + " = " + value.dump());
  }
  if (wrong.empty()) return;
  fail<FileError>("lora", "{} has settings that are not supported: {}; expected plain LoRA", where,
                  join(wrong));
}

double number(const Json& value, const char* key, const std::string& where) {
  const auto out = finite_number(value);
  if (out && *out >= 0) return *out;
  fail<FileError>("lora", "{}: {} = {}; expected a number", where, key, value.dump());
}

int64_t rank(const Json& value, const char* key, const std::string& where) {
  const auto out = whole_number<int64_t>(value);
  if (out && *out >= 1) return *out;
  fail<FileError>("lora", "{}: {} = {}; expected a rank of at least 1", where, key, value.dump());
}

}  // namespace

int64_t AdapterConfig::rank_of(const std::string& module) const {
  return by_pattern(rank_pattern, module, r);
}

double AdapterConfig::scale_of(const std::string& module) const {
  const auto rank = static_cast<double>(rank_of(module));
  return by_pattern(alpha_pattern, module, alpha) / (use_rslora ? std::sqrt(rank) : rank);
}

bool ends_with_module(const std::string& module, const std::string& target) {
  return module == target || module.ends_with("." + target);
}

bool lies_in_module(const std::string& name, const std::string& module) {
  const auto text = name + ".";
  return text.starts_with(module + ".") || text.find("." + module + ".") != std::string::npos;
}

bool AdapterConfig::is_target(const std::string& module) const {
  if (is_saved(module)) return false;
  if (targets == std::vector<std::string>{kAllLinear}) return true;
  if (is_regex) return std::regex_match(module, regex_of(targets.front()));
  return std::any_of(targets.begin(), targets.end(),
                     [&](const auto& target) { return ends_with_module(module, target); });
}

bool AdapterConfig::is_saved(const std::string& name) const {
  return std::any_of(modules_to_save.begin(), modules_to_save.end(),
                     [&](const auto& module) { return lies_in_module(name, module); });
}

bool is_adapter(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kAdapterConfig, error);
}

AdapterConfig read_adapter_config(const fs::path& folder) {
  const auto where = (folder / kAdapterConfig).string();
  if (!is_adapter(folder)) {
    fail<FileError>("lora", "{} is not there; expected the folder of an adapter", where);
  }
  const auto json = parse_json(read_regular_file(where), where);
  if (!json.is_object()) fail<FileError>("lora", "{} is no JSON object", where);
  check_keys(json, where);
  AdapterConfig out;
  out.r = rank(json.value("r", Json(out.r)), "r", where);
  out.alpha = number(json.value("lora_alpha", Json(out.alpha)), "lora_alpha", where);
  out.dropout = number(json.value("lora_dropout", Json(0)), "lora_dropout", where);
  out.use_rslora = json.value("use_rslora", Json(false)) == true;
  out.fan_in_fan_out = json.value("fan_in_fan_out", Json(false)) == true;
  const auto targets = json.value("target_modules", Json());
  out.targets = texts_of(targets, "target_modules", where);
  out.is_regex = targets.is_string() && targets != kAllLinear;
  if (out.targets.empty()) {
    fail<FileError>("lora", "{}: target_modules is missing; expected names of modules", where);
  }
  out.modules_to_save = texts_of(json.value("modules_to_save", Json()), "modules_to_save", where);
  const auto each = [&](const char* key, const auto& use) {
    const auto patterns = json.value(key, Json::object());
    if (patterns.is_null()) return;
    if (!patterns.is_object()) fail<FileError>("lora", "{}: {} is no object", where, key);
    for (const auto& [pattern, value] : patterns.items()) use(pattern, value);
  };
  each("rank_pattern", [&](const std::string& pattern, const Json& value) {
    out.rank_pattern[pattern] = rank(value, "rank_pattern", where);
  });
  each("alpha_pattern", [&](const std::string& pattern, const Json& value) {
    out.alpha_pattern[pattern] = number(value, "alpha_pattern", where);
  });
  out.base = text_of(json, "base_model_name_or_path");
  out.task_type = text_of(json, "task_type");
  return out;
}

Json to_json(const AdapterConfig& config) {
  const auto list = [](const std::vector<std::string>& texts) {
    return texts.empty() ? Json() : Json(texts);
  };
  // Whole numbers as PEFT writes them.
  const auto plain = [](double value) {
    return value == std::floor(value) ? Json(static_cast<int64_t>(value)) : Json(value);
  };
  Json alphas = Json::object();
  for (const auto& [pattern, value] : config.alpha_pattern) alphas[pattern] = plain(value);
  const bool one = config.is_regex || config.targets.front() == kAllLinear;
  return {{"alpha_pattern", alphas},
          {"auto_mapping", Json()},
          {"base_model_name_or_path", config.base},
          {"bias", "none"},
          {"fan_in_fan_out", config.fan_in_fan_out},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", plain(config.alpha)},
          {"lora_bias", false},
          {"lora_dropout", config.dropout},
          {"modules_to_save", list(config.modules_to_save)},
          {"peft_type", "LORA"},
          {"r", config.r},
          {"rank_pattern", config.rank_pattern},
          {"revision", Json()},
          {"target_modules", one ? Json(config.targets.front()) : Json(config.targets)},
          {"task_type", config.task_type.empty() ? Json() : Json(config.task_type)},
          {"use_dora", false},
          {"use_rslora", config.use_rslora}};
}

void check_base(const fs::path& folder, const std::string& adapter) {
  std::error_code error;
  if (fs::is_regular_file(folder / kConfig, error)) return check_fingerprint(folder, adapter);
  fail<FileError>("lora",
                  "{} is an adapter of {}, which is no folder with config.json and "
                  "model.safetensors; download that model, or write its folder into {}",
                  adapter, folder.empty() ? "no model that it names" : folder.string(),
                  kAdapterConfig);
}

fs::path config_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kConfig, error) || !is_adapter(folder)) return folder;
  const fs::path base = read_adapter_config(folder).base;
  check_base(base, folder.string());
  return base;
}

}  // namespace convoy::checkpoint
