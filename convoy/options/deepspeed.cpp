#include "convoy/options/deepspeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/options/deepspeed_keys.h"

namespace convoy::options {

namespace {

namespace fs = std::filesystem;

/// Value as the text of an option.
std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_off(const Json& value) {
  return value.is_null() || value == false || value == 0 || value == "auto";
}

class Reader {
 public:
  explicit Reader(const fs::path& file)
      : file_(file.string()), text_(read_regular_file(file)), json_(parse_json(text_, file_)) {
    refuse_doubles();
  }

  DeepSpeedOptions read() {
    if (!json_.is_object()) fail<UsageError>("deepspeed", "{} holds no object", file_);
    walk(json_, "");
    // Three numbers of which one follows from the others and the ranks.
    const auto has = [&](const char* option) {
      return std::any_of(out_.entries.begin(), out_.entries.end(),
                         [&](const auto& entry) { return entry.option == option; });
    };
    if (has("train.global_batch_size") && has("train.gradient_accumulation_steps")) {
      check_batches();
      refuse_open_micro_batch();
      std::erase_if(out_.entries, [](const auto& entry) {
        return entry.option == "train.gradient_accumulation_steps";
      });
      out_.notes.push_back(
          "gradient_accumulation_steps follows from train_batch_size and the ranks");
    }
    return std::move(out_);
  }

 private:
  /// Throws for a key that is there twice, which JSON allows.
  void refuse_doubles() const {
    std::vector<std::set<std::string>> names;
    std::string doubled;
    const auto parsed = Json::parse(text_, [&](int, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::object_start) names.emplace_back();
      if (event == Json::parse_event_t::object_end) names.pop_back();
      if (event == Json::parse_event_t::key && !names.back().insert(value).second) doubled = value;
      return true;
    });
    if (!doubled.empty()) refuse(doubled, "stands twice in one object");
  }

  /// Checks that a step's batch is micro-batch times accumulation times ranks.
  void check_batches() const {
    const auto number = [&](const char* key) {
      const auto found = json_.find(key);
      return found != json_.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
    };
    const auto batch = number("train_batch_size");
    const auto micro = number("train_micro_batch_size_per_gpu");
    const auto steps = number("gradient_accumulation_steps");
    if (batch <= 0 || micro <= 0 || steps <= 0 || batch % (micro * steps) == 0) return;
    refuse("train_batch_size",
           fmt::format("= {} is no multiple of train_micro_batch_size_per_gpu = {} times "
                       "gradient_accumulation_steps = {}",
                       batch, micro, steps));
  }

  /// Throws where the micro-batch is left out: DeepSpeed derives it from the number of ranks, which
  /// a file does not know, where the options here would derive the accumulation.
  void refuse_open_micro_batch() const {
    const auto micro = json_.find("train_micro_batch_size_per_gpu");
    if (micro != json_.end() && !micro->is_null()) return;
    const auto batch = json_["train_batch_size"].dump();
    const auto steps = json_["gradient_accumulation_steps"].dump();
    refuse("gradient_accumulation_steps",
           fmt::format("= {0} and train_batch_size = {1} leave train_micro_batch_size_per_gpu to "
                       "the number of ranks; try to say it, {1} / ({0} x ranks), or \"auto\" to "
                       "take per_device_train_batch_size",
                       steps, batch));
  }

  void walk(const Json& json, const std::string& before) {
    for (const auto& [name, value] : json.items()) {
      const auto key = before.empty() ? name : before + "." + name;
      if (name.starts_with("//") || name == "_comment") continue;
      const auto& parts = deepspeed_parts();
      const auto part = std::ranges::find(parts, key, &DeepSpeedPart::key);
      if (part != parts.end()) {
        take_part(*part, value);
      } else if (key == "optimizer.params.betas") {
        take_betas(key, value);
      } else if (value.is_object()) {
        if (is_rule(key)) refuse(key, "is an object; expected a value");
        walk(value, key);
      } else if (holds_rules(key)) {
        if (value != "auto") refuse(key, fmt::format("= {}; expected an object", value.dump()));
      } else {
        take(key, value);
      }
    }
  }

  static bool is_rule(const std::string& key) {
    return std::ranges::any_of(deepspeed_rules(),
                               [&](const DeepSpeedRule& r) { return key == r.key; });
  }
  static bool holds_rules(const std::string& key) {
    return std::ranges::any_of(deepspeed_rules(), [&](const DeepSpeedRule& r) {
      return std::string_view(r.key).starts_with(key + ".");
    });
  }

  void take_betas(const std::string& key, const Json& value) {
    if (value.is_null() || value == "auto") return;
    if (!value.is_array() || value.size() != 2) {
      refuse(key, fmt::format("= {}; expected a list of two numbers, or \"auto\"", value.dump()));
    }
    for (size_t i = 0; i < 2; ++i) take(fmt::format("{}.{}", key, i), value[i]);
  }

  void take_part(const DeepSpeedPart& part, const Json& value) {
    if (value.is_object() && value.empty()) return;
    const bool off =
        is_off(value) || (value.is_object() && is_off(value.value("enabled", Json(true))));
    if (off) return;
    if (part.refused) refuse(part.key, fmt::format("cannot be had here: {}", part.why));
    out_.notes.push_back(fmt::format("{}: {}", part.key, part.why));
  }

  void take(std::string key, const Json& value) {
    constexpr std::string_view kOld = "bfloat16.";  // what DeepSpeed called it first, and takes
    if (key.starts_with(kOld)) key.replace(0, kOld.size(), "bf16.");
    if (key.starts_with("tensorboard.") && key != "tensorboard.enabled") return;
    const auto& all = deepspeed_rules();
    const auto rule =
        std::find_if(all.begin(), all.end(), [&](const DeepSpeedRule& r) { return key == r.key; });
    if (rule == all.end()) refuse(key, "is no key of DeepSpeed's that convoy knows" + suggest(key));
    if (value.is_null() || value == "auto") return;
    auto text = plain(value);
    if (rule->refused) {
      if (is_off(value)) return;
      refuse(key, fmt::format("= {} cannot be had here: {}", text, rule->why));
    }
    if (!rule->values.empty()) {
      const auto found = rule->values.find(text);
      if (found != rule->values.end()) {
        text = found->second;
      } else if (!rule->others) {
        std::vector<std::string> names;
        for (const auto& [name, ours] : rule->values) names.push_back(name);
        refuse(key, fmt::format("= {} cannot be had here{}{}; expected {}", text,
                                rule->why.empty() ? "" : ": ", rule->why, join(names, " or ")));
      }
    }
    if (rule->option.empty()) {
      if (rule->values.empty()) out_.notes.push_back(fmt::format("{}: {}", key, rule->why));
      return;
    }
    out_.entries.push_back({key, rule->option, text});
  }

  std::string suggest(const std::string& key) const {
    const auto name = key.substr(key.rfind('.') + 1);
    for (const auto& rule : deepspeed_rules()) {
      const std::string known = rule.key;
      if (known.substr(known.rfind('.') + 1) == name)
        return fmt::format(", did you mean {}?", known);
    }
    return "";
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    fail<UsageError>("deepspeed", "{}:{}: {} {}", file_, line_of(key), key, what);
  }

  /// Returns the line of a nested key: each of its names is searched for behind the one before.
  int64_t line_of(const std::string& key) const {
    size_t at = 0;
    for (const auto& name : split(key, '.')) {
      const auto found = text_.find('"' + name + '"', at);
      if (found != std::string::npos) at = found;
    }
    return 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  }

  std::string file_, text_;
  Json json_;
  DeepSpeedOptions out_;
};

}  // namespace

void DeepSpeedOptions::apply(OptionTable& table, const std::string& file) const {
  for (const auto& [key, option, value] : entries) {
    const auto* known = table.find(option);
    const auto before = known->plain();
    const bool said = table.asked_for(option);
    table.set(option, value, file + ": " + key);
    if (said && table.find(option)->plain() != before) {
      fail<UsageError>("deepspeed",
                       "{}: {} = {}, but {} is {}; try \"auto\" in the file, or one value", file,
                       key, value, known->name, before);
    }
  }
}

DeepSpeedOptions read_deepspeed(const fs::path& file) {
  return Reader(file).read();
}

std::string take_deepspeed(const std::string& file, OptionTable& table) {
  const auto asked = read_deepspeed(file);
  asked.apply(table, file);
  if (asked.notes.empty()) return "";
  return fmt::format("{}: without effect here: {}", file, join(asked.notes, "; "));
}

}  // namespace convoy::options
