#include "convoy/tasks/language/task.h"

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/models/t5.h"
#include "convoy/tasks/language/dataset.h"
#include "convoy/tasks/language/memory.h"
#include "convoy/tasks/language/run_clm.h"
#include "convoy/tasks/language/scorer.h"
#include "convoy/tasks/pretrained.h"
#include "convoy/tasks/trained.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

using models::Objective;

namespace {

constexpr const char* kGenerationConfig = "generation_config.json";

}  // namespace

LanguageTask::LanguageTask(std::string family)
    : family_(std::move(family)), config_(models::make_causal_config(family_)) {}

void LanguageTask::declare(OptionTable& table) {
  table
      .add("model", "family", family_,
           "kind of model; its other options are Hugging Face's config keys")
      .choice(models::causal_families())
      .alias("model_type");
  table.add("model", "start", start_, "folder of a model in Hugging Face's form to start from")
      .alias("model_name_or_path")
      .path();
  table
      .add("model", "config_name", config_name_,
           "config.json, or a folder with one, of a model whose weights are to be drawn")
      .path();
  table
      .add("model", "config_overrides", config_overrides_,
           "options of the model in one text, such as n_embd=10,resid_pdrop=0.2; not with start or "
           "config_name")
      .once();
  models::declare_options(table, "model", config_->fields());
  data_.declare(table);
  std::vector<std::string> kinds{"language"};
  if (learns(Objective::HiddenTokens)) kinds.push_back("classification");
  table.add("model", "task", task_, "what the model is trained for").choice(kinds);
  if (!learns(Objective::NextToken)) {
    table
        .add("data", "mlm_probability", data_.mlm_probability,
             "part of the tokens that are hidden and asked for")
        .within(0.001, learns(Objective::Spans) ? 0.9 : 1);
  }
  if (learns(Objective::Spans)) {
    table
        .add("data", "mean_noise_span_length", data_.mean_noise_span_length,
             "tokens in a row that are hidden together, on average")
        .within(1, 1000);
  }
  table.add("train", "do_eval", do_eval_, "evaluate where there is evaluation data");
  answer_run_clm_flags(table);
  add_hints_of_texts(table);
  table.hint({"data.block_size", true, {"seq_length", "max_seq_length", "sequence_length"}});
}

void LanguageTask::settle(OptionTable& table) {
  read_configs(table);
  tokenizer_ = find_tokenizer();
  const bool has_config = !start_.empty() || !config_name_.empty();
  const auto follow = [&](const std::string& key, int64_t value, const char* whom) {
    if (!has_config && table.find(key)->source.empty()) {
      table.set(key, std::to_string(value), whom);
    }
  };
  const auto follow_tokenizer = [&](const std::string& key, int64_t value) {
    follow(key, value, "the tokenizer");
  };
  if (tokenizer_ && learns(Objective::Spans)) {
    const bool own = tokenizer_->id_of("<extra_id_0>").has_value();
    follow_tokenizer("model.vocab_size", tokenizer_->vocab_size() + (own ? 0 : Sentinels::kUsual));
    const auto& special = tokenizer_->special_ids();
    if (special.eos) follow_tokenizer("model.eos_token_id", *special.eos);
    if (special.pad) follow_tokenizer("model.pad_token_id", *special.pad);
    if (!has_config && table.find("model.eos_token_id")->source.empty()) {
      fail<UsageError>("tasks",
                       "the tokenizer names no token that ends a text; try --eos_token_id ID");
    }
  } else if (tokenizer_) {
    follow_tokenizer("model.vocab_size", tokenizer_->vocab_size());
  } else if (const auto size = data::vocab_size_of_ids(data_.train, data_.column)) {
    if (*size > 0) {
      follow("model.vocab_size", *size, "the token file");
    } else if (!has_config && table.find("model.vocab_size")->source.empty()) {
      fail<UsageError>("tasks",
                       "{} holds ids, but does not say how many ids their tokenizer has; try "
                       "--vocab_size N, or --data.tokenizer FOLDER",
                       data_.train);
    }
  }
  if (tokenizer_ && tokenizer_->vocab_size() > config_->num_ids()) {
    fail<UsageError>("tasks",
                     "the tokenizer has {} ids, the model's vocab_size is {}; try the model's own "
                     "tokenizer, or a larger vocab_size",
                     tokenizer_->vocab_size(), config_->num_ids());
  }
  if (data_.block_size > config_->max_length()) {
    fail<UsageError>("data",
                     "block_size = {} is beyond the model's {} positions; try a smaller one",
                     data_.block_size, config_->max_length());
  }
  if (data_.random_tokens > 0 && (!data_.train.empty() || !data_.valid.empty())) {
    fail<UsageError>("data", "data.random_tokens and files exclude each other; got both");
  }
  config_->check();
}

void LanguageTask::read_configs(OptionTable& table) {
  const auto exclude = [](const char* one, const char* other) {
    fail<UsageError>("tasks", "model.{} and model.{} exclude each other; try one of them", one,
                     other);
  };
  if (!config_overrides_.empty()) {
    if (!start_.empty()) exclude("config_overrides", "start");
    if (!config_name_.empty()) exclude("config_overrides", "config_name");
    apply_config_overrides(config_overrides_, *config_, table);
  }
  if (!config_name_.empty()) {
    if (!start_.empty()) exclude("config_name", "start");
    read_config(config_name_, *config_, table);
  }
  if (!start_.empty()) read_pretrained(start_, *config_, table);
}

std::optional<text::Tokenizer> LanguageTask::find_tokenizer() const {
  // A run keeps its own; else the one that is named; else that of the model to start from.
  return tasks::find_tokenizer({opened_, opened_ / "..", data_.tokenizer, start_}, data_.tokenizer);
}

const text::Tokenizer& LanguageTask::tokenizer() {
  if (!tokenizer_) tokenizer_ = find_tokenizer();
  if (!tokenizer_) {
    fail<UsageError>("tasks", "{} holds no tokenizer; try --data.tokenizer FOLDER",
                     opened_.string());
  }
  return *tokenizer_;
}

GenerationConfig LanguageTask::generation_config() const {
  GenerationConfig out;
  const auto file = opened_ / kGenerationConfig;
  out.file = file.string();
  if (!fs::exists(file)) return out;
  const auto json = parse_json(read_file(file), out.file);
  if (json.is_object()) out.json = json;
  return out;
}

std::vector<int32_t> LanguageTask::end_ids() const {
  auto ends = generation_config().json.value("eos_token_id",
                                             config_->to_json().value("eos_token_id", Json()));
  std::vector<int32_t> ids;
  if (!ends.is_array()) ends = Json::array({ends});
  for (const auto& id : ends) {
    if (id.is_number_integer()) ids.push_back(id.get<int32_t>());
  }
  return ids;
}

models::TextMasking LanguageTask::masking() const {
  models::TextMasking out;
  out.probability = data_.mlm_probability;
  if (!learns(Objective::HiddenTokens) || !tokenizer_) return out;
  const auto id_of = [&](const char* token) {
    const auto id = tokenizer_->id_of(token);
    if (id) return *id;
    fail<UsageError>("tasks", "the tokenizer has no token {}; expected one of BERT's", token);
  };
  out.mask_id = id_of("[MASK]");
  out.kept_ids = {id_of("[CLS]"), id_of("[SEP]"), id_of("[PAD]")};
  return out;
}

Sentinels LanguageTask::sentinels() const {
  if (!learns(Objective::Spans)) return {};
  return {tokenizer_ ? &*tokenizer_ : nullptr, config_->num_ids()};
}

models::SpanCorruption LanguageTask::corruption() const {
  models::SpanCorruption out;
  if (!learns(Objective::Spans)) return out;
  out.noise_density = data_.mlm_probability;
  out.mean_span_length = data_.mean_noise_span_length;
  out.sentinel_ids = sentinels().ids();
  if (const auto ends = end_ids(); !ends.empty()) out.end_id = ends[0];
  return out;
}

Run LanguageTask::make_run() {
  Run out;
  notes_ = out.notes;
  // The blocks copy what they need of the config.
  out.factory = [config = config_->to_json(), masking = masking(), corruption = corruption()] {
    const auto read = models::read_causal_config(config, "the model's config");
    if (auto* bert = dynamic_cast<models::BertTextConfig*>(read.get())) bert->masking = masking;
    if (auto* t5 = dynamic_cast<models::T5Config*>(read.get())) t5->corruption = corruption;
    return read->make_blocks();
  };
  out.scorer = [] { return std::make_unique<LanguageScorer>(); };
  return out;
}

double LanguageTask::flops_per_row() const {
  const int64_t length = block_size();
  if (learns(Objective::Spans)) {
    return models::training_flops(*config_, length, corruption().target_length(row_length()));
  }
  const double hidden = data_.mlm_probability * static_cast<double>(length);
  return models::training_flops(*config_, length, static_cast<int64_t>(std::nearbyint(hidden)));
}

Run LanguageTask::prepare(const train::ParallelArguments& parallel) {
  auto out = make_run();
  check_memory(*config_, parallel);
  out.flops_per_sample = flops_per_row();
  out.files.config = config_->to_json();
  out.files.config["architectures"] = {config_->architecture()};  // whatever it started from
  keep_tokenizer(tokenizer_, out.files);
  out.files.looked_for.emplace_back(kGenerationConfig);
  out.files.inputs = {data_.train, data_.valid, start_, config_name_};
  if (!start_.empty()) start_from(start_, *config_, config_->layout(), out);
  if (!config_name_.empty()) note_unknown_keys(config_name_, *config_, out);
  if (data_.random_tokens > 0) {
    auto texts = std::make_shared<data::TokenTexts>(
        random_texts(data_.random_tokens, config_->num_ids(), /*seed=*/1));
    out.train_data = blocks(texts, 0, 1, "data.random_tokens", data_.max_train_samples);
    return out;
  }
  if (data_.train.empty()) {
    fail<UsageError>("data", "there is no training text; try --data.train FILE");
  }
  if (!learns(Objective::NextToken) && !tokenizer_) {
    fail<UsageError>("tasks",
                     "a model that names what is hidden needs the tokenizer, for the tokens that "
                     "stand for it; try --data.tokenizer FOLDER");
  }
  data_.ids_tokenizer.clear();
  auto texts = read(data_.train);
  if (!tokenizer_) {
    data_.ids_tokenizer = texts->fingerprint;
    if (!texts->fingerprint.empty()) out.files.encoding = "tokenizer " + texts->fingerprint;
  }
  const int64_t held_out = num_held_out(*texts);
  out.train_data = blocks(texts, held_out, texts->size(), data_.train, data_.max_train_samples);
  if (do_eval_ && !data_.valid.empty()) {
    out.valid_data = evaluation_data(data_.valid).data;
  } else if (do_eval_ && held_out > 0) {
    out.valid_data = blocks(texts, 0, held_out, data_.train, data_.max_eval_samples);
  }
  return out;
}

Run LanguageTask::open(const fs::path& folder, OptionTable& table) {
  const auto config = open_trained(folder, table);
  opened_ = folder;
  config_->read(config, (folder / "config.json").string());
  if (!learns(Objective::NextToken)) tokenizer_ = find_tokenizer();
  auto out = make_run();
  start_from(folder, *config_, config_->layout(), out);
  return out;
}

void LanguageTask::declare_predict(OptionTable& table) {
  table
      .add("predict", "top_k", top_k_,
           learns(Objective::NextToken) ? "likeliest next tokens" : "tokens for what is hidden")
      .at_least(1);
}

}  // namespace convoy::tasks
