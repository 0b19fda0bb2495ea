#include "convoy/tasks/language/run_clm.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/options/trainer_flags.h"

namespace convoy::tasks {

void answer_run_clm_flags(OptionTable& table, std::vector<OtherFlag> more) {
  const char* no_hub = "nothing is fetched";
  const char* no_data_sets =
      "data sets are not fetched; save it as .txt, .jsonl or .parquet, such as "
      "datasets.load_dataset(...)[\"train\"].to_parquet(\"train.parquet\"), then try --train_file "
      "train.parquet";
  const char* precision = "weights are fp32 masters; --bf16 computes in bf16";
  std::vector<OtherFlag> all{
      {"do_train", OtherFlag::AlwaysOn, "convoy train always trains; try convoy eval FOLDER"},
      {"keep_linebreaks", OtherFlag::AlwaysOn,
       "the lines of .txt always keep their ends; try .jsonl with texts that have none"},
      {"overwrite_cache", OtherFlag::Switch, "tokens are not cached between runs"},
      {"preprocessing_num_workers", OtherFlag::Value, "convoy data tokenize uses every core"},
      {"use_fast_tokenizer", OtherFlag::Switch, "there is one kind"},
      {"cache_dir", OtherFlag::Value, no_hub},
      {"streaming", OtherFlag::Switch, "tokens beyond memory_budget_mb are kept in a file"},
      {"low_cpu_mem_usage", OtherFlag::Switch, "weights are read in place"},
      {"trust_remote_code", OtherFlag::Switch, "no code of a model is run"},
      {"torch_dtype", OtherFlag::Value, precision},
      {"dtype", OtherFlag::Value, precision},
      {"token", OtherFlag::Value, no_hub},
      {"use_auth_token", OtherFlag::Switch, no_hub},
      {"model_revision", OtherFlag::Value, no_hub},
      {"dataset_name", OtherFlag::Refused, no_data_sets},
      {"dataset_config_name", OtherFlag::Refused, no_data_sets},
  };
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  table.answer(options::trainer_flags(all));
}

void apply_config_overrides(const std::string& overrides, models::LanguageModelConfig& config,
                            OptionTable& table) {
  std::vector<std::string> keys;
  for (const auto& field : config.fields()) {
    keys.push_back(field.name);
    keys.insert(keys.end(), field.aliases.begin(), field.aliases.end());
  }
  for (const auto& part : split(overrides, ',')) {
    const auto equals = part.find('=');
    const auto key = trim(part.substr(0, equals));
    const bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
    if (!known || equals == std::string::npos) {
      fail<UsageError>("config",
                       "config_overrides: '{}' is no key of a {} config with its value; expected "
                       "such as {}=VALUE,{}=VALUE{}",
                       part, config.family(), keys[0], keys[1],
                       known ? "" : did_you_mean(key, keys));
    }
    table.set("model." + key, trim(part.substr(equals + 1)), "config_overrides");
  }
}

}  // namespace convoy::tasks
