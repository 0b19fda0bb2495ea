#include "convoy/tasks/language/task.h"

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/causal_head.h"
#include "convoy/tasks/language/run_clm.h"
#include "convoy/tasks/language/scorer.h"
#include "convoy/tasks/memory.h"
#include "convoy/tasks/pretrained.h"
#include "convoy/tasks/resumed_task.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

using models::Objective;

namespace {

/// Throws UsageError where ranks share out the tokens whose labels are smoothed.
void check_smoothing(double share, const OptionTable& table) {
  if (share == 0) return;
  for (const auto& [key, usual] : {std::pair("parallel.sequence_parallel", "false"),
                                   {"parallel.context_parallel_size", "1"}}) {
    const auto* option = table.find(key);
    if (option->plain() == usual) continue;
    fail<UsageError>("tasks",
                     "label_smoothing_factor = {} does not go with {} = {}, whose ranks share out "
                     "the tokens of a row; try --{} {}, or --label_smoothing_factor 0",
                     share, option->name, option->plain(), option->name, usual);
  }
}

}  // namespace

LanguageTask::LanguageTask(std::string family, std::string task)
    : family_(std::move(family)),
      task_(std::move(task)),
      config_(models::make_model_config(family_)) {}

void LanguageTask::declare(OptionTable& table) {
  table
      .add("model", "family", family_,
           "model architecture; its other options are Hugging Face's config keys")
      .choice(models::language_families())
      .alias("model_type");
  table.add("model", "start", start_, "folder of a Hugging Face model to start from")
      .alias("model_name_or_path")
      .path();
  table
      .add("model", "config_name", config_name_,
           "config.json, or a folder with one, of a model to train from scratch")
      .path();
  table
      .add("model", "config_overrides", config_overrides_,
           "model options in one string, such as n_embd=10,resid_pdrop=0.2; not with start or "
           "config_name")
      .once();
  models::declare_options(table, "model", config_->fields());
  lora_.declare(table);
  declare_data(table);
  std::vector<std::string> kinds{"language"};
  if (learns(Objective::HiddenTokens)) kinds.push_back("classification");
  if (learns(Objective::NextToken)) {
    kinds.emplace_back("chat");
    kinds.emplace_back("preference");
  }
  table.add("model", "task", task_, "what the model is trained for").choice(kinds);
  table.add("train", "do_eval", do_eval_, "evaluate if there is evaluation data");
  add_hints_of_texts(table);
}

void LanguageTask::declare_data(OptionTable& table) {
  data_.declare(table, config_->usual_length());
  if (!learns(Objective::NextToken)) {
    table
        .add("data", "mlm_probability", data_.mlm_probability,
             "fraction of the tokens that are masked and predicted")
        .within(0.001, learns(Objective::Spans) ? 0.9 : 1);
  }
  if (learns(Objective::Spans)) {
    table
        .add("data", "mean_noise_span_length", data_.mean_noise_span_length,
             "mean length of masked spans, in tokens")
        .within(1, 1000);
  }
  if (learns(Objective::NextToken)) {
    table
        .add(
            "data", "documents", data_.documents,
            "texts of a row: together, as one text, as run_clm has them; or apart, where none sees "
            "or predicts another's tokens and positions begin anew")
        .choice({"together", "apart"});
  }
  declare_smoothing(table);
  answer_run_clm_flags(table);
  table.hint({"data.block_size", true, {"seq_length", "max_seq_length", "sequence_length"}});
}

void LanguageTask::declare_smoothing(OptionTable& table) {
  if (!learns(Objective::NextToken)) return;
  table
      .add("train", "label_smoothing_factor", data_.label_smoothing_factor,
           "label smoothing in training: share of each target that is spread over all tokens")
      .within(0, 0.99);
}

std::function<void(const nn::BlockList& blocks)> LanguageTask::finish_blocks() const {
  const double share = data_.label_smoothing_factor;
  if (share == 0) return {};
  return [share](const nn::BlockList& blocks) { models::smooth_labels(blocks, share); };
}

std::string LanguageTask::peft_task() const {
  if (learns(Objective::HiddenTokens)) return "";
  return learns(Objective::NextToken) ? "CAUSAL_LM" : "SEQ_2_SEQ_LM";
}

void LanguageTask::settle(OptionTable& table) {
  check_resumed_task(table);
  lora_.find_start(start_, table);
  read_configs(table);
  asks_for_split_ = table.asked_for("data.validation_split_percentage");
  lora_.settle(start_, peft_task(), {}, table);
  check_smoothing(data_.label_smoothing_factor, table);
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
    const auto tokens = config_->span_tokens();
    const bool own = tokenizer_->id_of(tokens.name(0)).has_value();
    follow_tokenizer("model.vocab_size", tokenizer_->vocab_size() + (own ? 0 : tokens.usual));
    const auto& special = tokenizer_->special_ids();
    if (special.eos) follow_tokenizer("model.eos_token_id", *special.eos);
    if (special.pad) follow_tokenizer("model.pad_token_id", *special.pad);
    if (!has_config && table.find("model.eos_token_id")->source.empty()) {
      fail<UsageError>("tasks",
                       "the tokenizer names no token that ends a text; try --eos_token_id ID");
    }
  } else if (tokenizer_) {
    follow_tokenizer("model.vocab_size", tokenizer_->vocab_size());
    // The tokenizer's special ids replace the family's, which are those of its usual tokenizer.
    const auto& special = tokenizer_->special_ids();
    for (const auto& [key, id] :
         {std::pair("model.bos_token_id", special.bos), {"model.eos_token_id", special.eos}}) {
      const auto* option = table.find(key);  // a family of one's own may have none
      if (has_config || option == nullptr || !option->source.empty()) continue;
      table.set(key, id ? std::to_string(*id) : "none", "the tokenizer");
    }
    // A family's own padding would be an ordinary token here, whose embedding does not learn.
    const auto* pad = table.find("model.pad_token_id");
    if (learns(Objective::NextToken) && !has_config && pad != nullptr && pad->source.empty() &&
        pad->initial != "\"none\"") {
      table.set(pad->key(), special.pad ? std::to_string(*special.pad) : "none", "the tokenizer");
    }
  } else if (const auto size = data::vocab_size_of_ids(training_files()[0][0], data_.column)) {
    if (*size > 0) {
      follow("model.vocab_size", *size, "the token file");
    } else if (!has_config && table.find("model.vocab_size")->source.empty()) {
      fail<UsageError>("tasks",
                       "{} holds ids, but does not say how many ids their tokenizer has; try "
                       "--vocab_size N, or --data.tokenizer FOLDER",
                       training_files()[0][0]);
    }
  }
  if (tokenizer_ && tokenizer_->vocab_size() > config_->num_ids()) {
    fail<UsageError>("tasks",
                     "the tokenizer has {} ids, the model's vocab_size is {}; try the model's own "
                     "tokenizer, or a larger vocab_size",
                     tokenizer_->vocab_size(), config_->num_ids());
  }
  check_length();
  if (data_.random_tokens > 0 && (!data_.train.empty() || !data_.valid.empty())) {
    fail<UsageError>("data", "data.random_tokens and files exclude each other; got both");
  }
  if (data_.random_tokens > 0 && keeps_apart()) {
    fail<UsageError>(
        "data",
        "documents = apart has no effect: random_tokens = {} are one text; try without "
        "it, or --data.train FILE",
        data_.random_tokens);
  }
  config_->check();
}

void LanguageTask::check_length() const {
  if (data_.block_size <= config_->position_limit()) return;
  fail<UsageError>("data", "{} = {} is beyond the model's {} positions; try a smaller one",
                   length_option(), data_.block_size, config_->position_limit());
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

std::optional<tokenizers::Tokenizer> LanguageTask::find_tokenizer() const {
  // A run keeps its own; else the one that is named; else that of the model to start from.
  const fs::path base = lora_ ? lora_.base() : "";
  return tasks::find_tokenizer({opened_, opened_ / "..", data_.tokenizer, start_, base},
                               data_.tokenizer);
}

Run LanguageTask::make_run() {
  Run out;
  notes_ = out.notes;
  // The blocks copy what they need of the config.
  out.factory = [config = config_of_blocks(), masking = masking(), corruption = corruption(),
                 finish = finish_blocks()] {
    const auto read = models::read_model_config(config, "the model's config");
    read->hide(masking, corruption);
    auto blocks = read->make_blocks();
    if (finish) finish(blocks);
    return blocks;
  };
  out.labelled = [config = config_->to_json(), masking = masking(), corruption = corruption()](
                     const nn::Bundle& batch, const nn::Context& context) {
    const auto read = models::read_model_config(config, "the model's config");
    read->hide(masking, corruption);
    return read->labelled(batch, context);
  };
  out.scorer = [] { return std::make_unique<LanguageScorer>(); };
  return out;
}

double LanguageTask::flops_per_row() const {
  const int64_t length = block_size();
  if (learns(Objective::Spans)) {
    return config_->training_flops(length, corruption().target_length(row_length()));
  }
  const double hidden = data_.mlm_probability * static_cast<double>(length);
  return config_->training_flops(length, static_cast<int64_t>(std::nearbyint(hidden)));
}

Run LanguageTask::prepare(const options::ParallelArguments& parallel) {
  if (const int ranks = parallel.num_context_ranks(); ranks > block_size()) {
    fail<UsageError>("data",
                     "{} = {} tokens for context_parallel_size = {} ranks that share them "
                     "out; try at most {}, or longer rows",
                     length_option(), block_size(), ranks, block_size());
  }
  auto out = make_run();
  // A plan or an estimate of a config alone trains nothing: the other parts need not be there.
  const bool only_looks = parallel.data_may_be_random && start_.empty();
  if (!only_looks) carry_others(start_, *config_, static_cast<bool>(lora_), out);
  out.flops_per_sample = flops_per_row();
  lora_.apply(config_->layout(), out);
  check_memory(*config_, out.factory(), parallel);
  out.files.config = config_->to_json();
  out.files.config["architectures"] = {config_->saved_architecture()};  // whatever it started from
  if (learns(Objective::NextToken)) out.files.unread_keys = {"bos_token_id", "eos_token_id"};
  keep_tokenizer(tokenizer_, out.files);
  out.files.looked_for.insert(out.files.looked_for.end(), {kGenerationConfig, chat::kChatTemplate});
  out.files.inputs = {data_.train, data_.valid, start_, config_name_};
  if (data_.mixture) {
    for (const auto& files : training_files()) {
      out.files.inputs.insert(out.files.inputs.end(), files.begin(), files.end());
    }
  }
  if (!start_.empty()) {
    start_from(start_, *config_, config_->layout(), out, lora_.adapter());
    if (!note_other_tokenizer(start_, data_.tokenizer, tokenizer_, out)) {
      keep_beside(start_, kGenerationConfig, out.files);
      keep_beside(start_, chat::kChatTemplate, out.files);
    }
  }
  if (asks_for_split_ && !data_.valid.empty()) {
    out.notes->push_back(
        fmt::format("warning: validation_split_percentage = {} has no effect beside {}",
                    data_.validation_split_percentage, data_.valid));
  }
  if (!config_name_.empty()) note_unknown_keys(config_name_, *config_, out);
  read_data(parallel, out);
  return out;
}

Run LanguageTask::open(const fs::path& folder, OptionTable& table) {
  const auto config = open_trained(folder, table);
  opened_ = folder;
  config_->read(config, (folder / "config.json").string());
  lora_.open(folder);
  if (!learns(Objective::NextToken)) tokenizer_ = find_tokenizer();
  auto out = make_run();
  lora_.apply(config_->layout(), out);
  start_from(lora_ ? fs::path(lora_.base()) : folder, *config_, config_->layout(), out,
             lora_.adapter());
  return out;
}

void LanguageTask::declare_predict(OptionTable& table) {
  table
      .add("predict", "top_k", top_k_,
           learns(Objective::NextToken) ? "most likely next tokens"
                                        : "candidates for each masked token")
      .at_least(1);
}

}  // namespace convoy::tasks
