#include "convoy/tasks/language/task.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/models/bert_text.h"
#include "convoy/tasks/language/dataset.h"
#include "convoy/tasks/language/memory.h"
#include "convoy/tasks/language/scorer.h"
#include "convoy/tasks/pretrained.h"
#include "convoy/tasks/trained.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostPositions = 1024;  // of a block where nobody says
constexpr int64_t kTextsAtOnce = 1000;    // as run_clm maps them

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
  models::declare_options(table, "model", config_->fields());
  data_.declare(table);
  if (!config_->is_causal()) {
    table.add("model", "task", task_, "what the model is trained for")
        .choice({"language", "classification"});
    table
        .add("data", "mlm_probability", data_.mlm_probability,
             "part of the tokens that are hidden and asked for")
        .within(0, 1);
  }
  for (const OptionHint& hint : std::vector<OptionHint>{
           {"model.family", true, {"model", "architecture"}},
           {"model.start", true, {"pretrained", "config_name", "init_from"}},
           {"data.train", true, {"dataset_name", "dataset", "data", "train_data"}},
           {"data.valid", true, {"eval_data", "valid_file", "test_file"}},
           {"data.tokenizer", true, {"tokenizer_path"}},
           {"data.block_size", true, {"seq_length", "max_seq_length", "sequence_length"}}}) {
    table.hint(hint);
  }
}

void LanguageTask::settle(OptionTable& table) {
  if (!start_.empty()) read_pretrained(start_, *config_, table);
  tokenizer_ = find_tokenizer();
  if (tokenizer_ && start_.empty() && table.find("model.vocab_size")->source.empty()) {
    table.set("model.vocab_size", std::to_string(tokenizer_->vocab_size()), "the tokenizer");
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

std::vector<int32_t> LanguageTask::end_ids() const {
  auto ends = config_->to_json().value("eos_token_id", Json());
  const auto file = opened_ / "generation_config.json";
  if (fs::exists(file)) {
    const auto json = parse_json(read_file(file), file.string());
    if (json.is_object()) ends = json.value("eos_token_id", ends);
  }
  std::vector<int32_t> ids;
  if (!ends.is_array()) ends = Json::array({ends});
  for (const auto& id : ends) {
    if (id.is_number_integer()) ids.push_back(id.get<int32_t>());
  }
  return ids;
}

int64_t LanguageTask::block_size() const {
  return data_.block_size > 0 ? data_.block_size : std::min(kMostPositions, config_->max_length());
}

std::shared_ptr<const data::TokenTexts> LanguageTask::read(const std::string& file) const {
  auto texts = std::make_shared<data::TokenTexts>(
      data::read_token_texts(file, data_.column, tokenizer_, data_.memory_budget_mb << 20));
  for (const int32_t id : texts->ids->ids()) {
    if (id >= 0 && id < config_->num_ids()) continue;
    fail<UsageError>("data", "{} holds the token {}, but the model's vocab_size is {}", file, id,
                     config_->num_ids());
  }
  return texts;
}

std::shared_ptr<train::Dataset> LanguageTask::blocks(std::shared_ptr<const data::TokenTexts> texts,
                                                     int64_t first_text, int64_t end_text,
                                                     const std::string& file) const {
  auto cut = data::cut_blocks(*texts, first_text, end_text,
                              data_.grouping == "run_clm" ? kTextsAtOnce : 0, block_size());
  if (cut.empty()) {
    fail<UsageError>("data",
                     "{} gives no block: {} texts from {} on hold fewer than {} tokens; try a "
                     "smaller --block_size, or --grouping stream",
                     file, end_text - first_text, first_text, block_size());
  }
  return make_block_dataset(texts->ids, std::move(cut), block_size());
}

int64_t LanguageTask::num_held_out(const data::TokenTexts& texts) const {
  if (!data_.valid.empty()) return 0;
  return static_cast<int64_t>(
      std::nearbyint(static_cast<double>(texts.size()) * data_.validation_split_percentage / 100));
}

models::TextMasking LanguageTask::masking() const {
  models::TextMasking out;
  out.probability = data_.mlm_probability;
  if (config_->is_causal() || !tokenizer_) return out;
  const auto id_of = [&](const char* token) {
    const auto id = tokenizer_->id_of(token);
    if (id) return *id;
    fail<UsageError>("tasks", "the tokenizer has no token {}; expected one of BERT's", token);
  };
  out.mask_id = id_of("[MASK]");
  out.kept_ids = {id_of("[CLS]"), id_of("[SEP]"), id_of("[PAD]")};
  return out;
}

Run LanguageTask::make_run() {
  Run out;
  // The blocks copy what they need of the config.
  out.factory = [config = config_->to_json(), masking = masking()] {
    const auto read = models::read_causal_config(config, "the model's config");
    if (auto* bert = dynamic_cast<models::BertTextConfig*>(read.get())) bert->masking = masking;
    return read->make_blocks();
  };
  out.scorer = [] { return std::make_unique<LanguageScorer>(); };
  return out;
}

Run LanguageTask::prepare() {
  auto out = make_run();
  check_memory(*config_);
  if (config_->is_causal()) {
    out.flops_per_sample = models::training_flops(*config_, block_size());
  }
  if (data_.random_tokens > 0) {
    auto texts = std::make_shared<data::TokenTexts>(
        random_texts(data_.random_tokens, config_->num_ids(), /*seed=*/1));
    out.train_data = make_block_dataset(texts->ids, data::cut_blocks(*texts, 0, 1, 0, block_size()),
                                        block_size());
    return out;
  }
  if (data_.train.empty()) {
    fail<UsageError>("data", "there is no training text; try --data.train FILE");
  }
  if (!config_->is_causal() && !tokenizer_) {
    fail<UsageError>("tasks",
                     "a model that names hidden tokens needs the tokenizer, for its [MASK]; try "
                     "--data.tokenizer FOLDER");
  }
  auto texts = read(data_.train);
  const int64_t held_out = num_held_out(*texts);
  out.train_data = blocks(texts, held_out, texts->size(), data_.train);
  if (!data_.valid.empty()) {
    out.valid_data = evaluation_data(data_.valid).data;
  } else if (held_out > 0) {
    out.valid_data = blocks(texts, 0, held_out, data_.train);
  }
  out.files.config = config_->to_json();
  out.files.config["architectures"] = {config_->architecture()};  // whatever it started from
  if (tokenizer_) out.files.copies = tokenizer_->files();
  for (const auto& input : {data_.train, data_.valid, start_}) {
    if (!input.empty()) out.files.inputs.push_back(input);
  }
  if (!start_.empty()) start_from(start_, *config_, config_->layout(), out);
  return out;
}

Run LanguageTask::open(const fs::path& folder, OptionTable& table) {
  check_trained(folder);
  opened_ = folder;
  if (fs::exists(folder / "run.toml")) table.read_toml(folder / "run.toml");
  const auto path = (folder / "config.json").string();
  config_->read(parse_json(read_file(path), path), path);
  if (!config_->is_causal()) tokenizer_ = find_tokenizer();
  auto out = make_run();
  start_from(folder, *config_, config_->layout(), out);
  return out;
}

NamedData LanguageTask::evaluation_data(const std::string& where) {
  if (!tokenizer_) tokenizer_ = find_tokenizer();
  const auto& file = where.empty() ? data_.valid : where;
  if (!file.empty()) {
    auto texts = read(file);
    return {file, blocks(texts, 0, texts->size(), file)};
  }
  if (data_.train.empty()) return {};
  auto texts = read(data_.train);
  const int64_t held_out = num_held_out(*texts);
  if (held_out == 0) return {};
  return {fmt::format("the first {} texts of {}", held_out, data_.train),
          blocks(texts, 0, held_out, data_.train)};
}

}  // namespace convoy::tasks
