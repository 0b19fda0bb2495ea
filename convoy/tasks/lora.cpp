#include "convoy/tasks/lora.h"

#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/base_fingerprint.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

constexpr const char* kPrefix = "model.";
/// Options that an adapter from a folder sets itself.
constexpr const char* kOfAdapter[] = {"lora_r",          "lora_alpha",  "lora_target_modules",
                                      "modules_to_save", "use_rslora",  "rank_pattern",
                                      "alpha_pattern",   "lora_dropout"};

Json pattern_of(const std::string& text, const char* key) {
  if (text.empty()) return Json::object();
  auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  fail<UsageError>("lora", "{} = {} is no JSON object; try '{{\"q_proj\": 4}}'", key, text);
}

/// Whether a text looks like a regular expression, by characters that names do not have.
bool looks_like_regex(const std::string& text) {
  return text.find_first_of("*+?()[]|\\^$") != std::string::npos;
}

}  // namespace

void Lora::declare(OptionTable& t) {
  const char* s = "model";
  t.add(s, "lora_r", r_,
        "rank of low-rank adapters (LoRA), which are trained in place of the model's weights; 0 = "
        "all weights are trained")
      .within(0, 65536);
  t.add(s, "lora_alpha", alpha_, "factor of the adapters: what they add counts lora_alpha / lora_r")
      .at_least(0);
  t.add(s, "lora_dropout", dropout_, "dropout of the adapters' inputs").within(0, 0.99);
  t.add(s, "lora_target_modules", targets_,
        "modules with an adapter: names such as q_proj,v_proj, a regular expression of whole "
        "names, or all-linear for all but the output matrix");
  t.add(s, "modules_to_save", modules_to_save_,
        "modules that are trained whole beside adapters and saved with them");
  t.add(s, "use_rslora", use_rslora_, "let adapters count lora_alpha / sqrt(lora_r)");
  t.add(s, "rank_pattern", rank_pattern_, "other ranks by module, as JSON: '{\"q_proj\": 4}'");
  t.add(s, "alpha_pattern", alpha_pattern_, "other factors by module, as JSON");
  t.add(s, "adapter_name_or_path", adapter_name_,
        "folder of an adapter to train further, of a run or PEFT's")
      .path();
  t.hint({"model.lora_r", true, {"lora_rank", "lora", "use_lora", "use_peft"}});
  t.hint({"model.lora_target_modules", false, {"target_modules", "lora_targets"}});
}

void Lora::check_is_model(const std::string& start) {
  if (start.empty() || !checkpoint::is_adapter(start)) return;
  fail<UsageError>("lora",
                   "model.start = {} is an adapter; try --adapter_name_or_path {} to train it "
                   "further, or convoy checkpoint merge",
                   start, start);
}

void Lora::find_start(const std::string& start, OptionTable& table) {
  check_is_model(start);
  if (adapter_name_.empty() || !start.empty()) return;
  const auto base = checkpoint::read_adapter_config(adapter_name_).base;
  checkpoint::check_base(base, adapter_name_);
  table.set("model.start", base, "the adapter");
}

checkpoint::AdapterConfig Lora::typed() const {
  checkpoint::AdapterConfig out;
  out.r = r_;
  out.alpha = alpha_;
  out.dropout = dropout_;
  out.use_rslora = use_rslora_;
  out.is_regex = looks_like_regex(targets_);
  if (out.is_regex) {
    out.targets = {targets_};
  } else {
    out.targets.clear();
    for (const auto& name : split(targets_, ',')) {
      if (!name.empty()) out.targets.push_back(name);
    }
    if (out.targets.empty()) {
      fail<UsageError>("lora", "lora_target_modules names nothing; try all-linear");
    }
  }
  out.modules_to_save = modules_to_save_;
  const auto ranks = pattern_of(rank_pattern_, "rank_pattern");  // outlives its items()
  for (const auto& [pattern, value] : ranks.items()) {
    const auto rank = whole_number<int64_t>(value);
    if (!rank || *rank < 1) {
      fail<UsageError>("lora", "rank_pattern has {} for {}; expected a rank of at least 1",
                       value.dump(), pattern);
    }
    out.rank_pattern[pattern] = *rank;
  }
  const auto alphas = pattern_of(alpha_pattern_, "alpha_pattern");
  for (const auto& [pattern, value] : alphas.items()) {
    const auto alpha = finite_number(value);
    if (!alpha) {
      fail<UsageError>("lora", "alpha_pattern has {} for {}; expected a number", value.dump(),
                       pattern);
    }
    out.alpha_pattern[pattern] = *alpha;
  }
  return out;
}

void Lora::settle(const std::string& start, const std::string& task_type,
                  const std::vector<std::string>& head, OptionTable& table) {
  const bool goes_on = !adapter_name_.empty();
  for (const char* name : kOfAdapter) {
    const auto key = std::string(kPrefix) + name;
    if (!table.asked_for(key) || (!goes_on && r_ > 0) || (name == kOfAdapter[0] && r_ == 0)) {
      continue;
    }
    fail<UsageError>("lora", "{} has no effect: {}", name,
                     goes_on ? adapter_name_ + " says it itself; try without it"
                             : "no adapters are trained; try --lora_r 8");
  }
  if (!goes_on && r_ == 0) return;
  if (goes_on) {
    config_ = checkpoint::read_adapter_config(adapter_name_);
    adapter_ = adapter_name_;
  } else {
    config_ = typed();
    config_->modules_to_save.insert(config_->modules_to_save.end(), head.begin(), head.end());
  }
  if (start.empty()) {
    fail<UsageError>("lora",
                     "adapters need a model that they adapt; got none; try --model_name_or_path "
                     "FOLDER");
  }
  config_->base = fs::absolute(start).lexically_normal().string();
  config_->task_type = task_type;
  if (goes_on) checkpoint::check_base(config_->base, adapter_name_);
}

void Lora::open(const fs::path& folder) {
  if (!checkpoint::is_adapter(folder)) return;
  config_ = checkpoint::read_adapter_config(folder);
  checkpoint::check_base(config_->base, folder.string());
  adapter_ = folder;
}

void Lora::apply(const models::WeightLayout& layout, Run& run) {
  if (!config_) return;
  const bool strict = adapter_.empty();
  auto config = *config_;
  checkpoint::adapted(run.factory(), config, layout, strict);  // says what is wrong, and the names
  auto trained = config;
  if (without_dropout_) trained.dropout = 0;
  run.factory = [make = std::move(run.factory), trained, layout, strict] {
    auto own = trained;
    return checkpoint::adapted(make(), own, layout, strict);
  };
  config_ = config;
  run.files.texts[checkpoint::kAdapterConfig] = checkpoint::to_json(config).dump(2) + "\n";
  run.files.texts[checkpoint::kBaseFingerprint] = checkpoint::base_fingerprint(config.base);
  // No gradients of the frozen weights: a third of a step's products.
  run.flops_per_sample *= 2.0 / 3;
}

}  // namespace convoy::tasks
