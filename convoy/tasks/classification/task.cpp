#include "convoy/tasks/classification/task.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/models/padding_row.h"
#include "convoy/tasks/language/run_clm.h"
#include "convoy/tasks/language/scorer.h"
#include "convoy/tasks/memory.h"
#include "convoy/tasks/pretrained.h"
#include "convoy/tasks/resumed_task.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

void ClassificationTask::declare(OptionTable& table) {
  table
      .add("model", "family", family_,
           "model architecture; its other options are Hugging Face's config keys")
      .choice({"bert"})
      .alias("model_type");
  table.add("model", "task", task_, "what the model is trained for").choice({task_});
  table.add("model", "start", start_, "folder of a Hugging Face model to start from")
      .alias("model_name_or_path")
      .path();
  models::declare_options(table, "model", config_.fields());
  lora_.declare(table);
  const char* s = "data";
  table.add(s, "train", train_, "training texts: .csv, .tsv, .jsonl or .parquet")
      .alias("train_file")
      .path();
  table.add(s, "valid", valid_, "evaluation texts").alias("validation_file").path();
  table
      .add(s, "tokenizer", tokenizer_name_,
           "folder or file of the tokenizer; none = the model's own folder")
      .alias("tokenizer_name")
      .path();
  table.add(s, "text", columns_.text, "column of texts").alias("text_column_name");
  table.add(s, "text_pair", columns_.second,
            "column of second texts, by default text_pair where the data has it; none = single "
            "texts");
  table.add(s, "label", columns_.label, "column of labels").alias("label_column_name");
  table
      .add(s, "max_length", max_length_,
           "tokens per text or pair, by default no more than the model and its tokenizer support; "
           "longer ones are truncated")
      .at_least(3)
      .alias("max_seq_length");
  table
      .add(s, "pad_to_multiple_of", pad_to_multiple_of_,
           "pad texts to the longest of a batch, rounded up to a multiple of this: 16-bit matrix "
           "products cache a kernel for each length; none = 8 with bf16 and fp16, else 1")
      .within(1, 65536);
  table.add("train", "do_eval", do_eval_, "evaluate if there is evaluation data");
  const char* cut =
      "a classifier's texts are cut to max_length; hidden tokens: try --task language";
  answer_run_clm_flags(table, {{"block_size", OtherFlag::Refused, cut},
                               {"mlm_probability", OtherFlag::Refused, cut}});
  add_hints_of_texts(table);
  for (const OptionHint& hint :
       std::vector<OptionHint>{{"data.text", true, {"text_column", "sentence"}},
                               {"data.text_pair", true, {"second_text", "sentence2"}},
                               {"data.label", true, {"labels", "label_column"}},
                               {"data.max_length", true, {"max_len", "sequence_length"}}}) {
    table.hint(hint);
  }
}

void ClassificationTask::settle(OptionTable& table) {
  check_resumed_task(table);
  lora_.find_start(start_, table);
  if (!start_.empty()) read_pretrained(start_, config_, table);
  lora_.settle(start_, "SEQ_CLS", {"classifier"}, table);
  find_tokenizer();
  if (tokenizer_ && start_.empty() && table.find("model.vocab_size")->source.empty()) {
    table.set("model.vocab_size", std::to_string(tokenizer_->vocab_size()), "the tokenizer");
  }
  limit_length(table);
  if (max_length_ > config_.max_length()) {
    fail<UsageError>("data", "max_length = {} is beyond the model's {} positions", max_length_,
                     config_.max_length());
  }
  find_pairs(train_, table);
  const auto is_on = [&](const char* key) { return table.find(key)->plain() == "true"; };
  if (!pad_to_multiple_of_ && (is_on("train.bf16") || is_on("train.fp16"))) {
    table.set("data.pad_to_multiple_of", "8", "16-bit products");
  }
  config_.check();
}

void ClassificationTask::limit_length(OptionTable& table) {
  if (!table.find("data.max_length")->source.empty()) return;
  const auto limit = [&](int64_t most, const char* whose) {
    if (most < max_length_) table.set("data.max_length", std::to_string(most), whose);
  };
  limit(config_.max_length(), "the model's positions");
  if (tokenizer_) limit(tokenizer_->model_max_length(), "the tokenizer's model_max_length");
}

void ClassificationTask::find_pairs(const std::string& file, OptionTable& table) {
  const char* key = "data.text_pair";
  if (columns_.second == "none") columns_.second.clear();
  if (!table.find(key)->source.empty() || file.empty() || config_.type_vocab_size < 2) return;
  if (data::has_column(file, data::kPairColumn)) table.set(key, data::kPairColumn, "the data");
}

void ClassificationTask::tell_unread(const std::string& file) const {
  if (!columns_.second.empty() || !notes_ || !data::has_column(file, data::kPairColumn)) return;
  notes_->push_back(fmt::format(
      "warning: {} has a column {}, which is not read: the model is one of single texts", file,
      data::kPairColumn));
}

void ClassificationTask::find_tokenizer() {
  const fs::path base = lora_ ? lora_.base() : "";
  tokenizer_ = tasks::find_tokenizer({opened_, opened_ / "..", tokenizer_name_, start_, base},
                                     tokenizer_name_);
  if (opened_options_ != nullptr) limit_length(*opened_options_);
}

std::string ClassificationTask::find_labels(const data::LabelledTexts& texts) {
  labels_ = Labels(texts.labels);
  if (labels_.size() < 2) {
    fail<UsageError>(
        "data", "{} has no other label than '{}'; expected at least two; try another --data.label",
        train_, labels_.names()[0]);
  }
  if (start_.empty() || starts_from_other_head(start_)) return "";
  // A model that was trained for these labels keeps their numbers.
  const auto path = (fs::path(start_) / "config.json").string();
  const auto own = Labels::of_config(parse_json(read_file(path), path), path);
  const auto kept = labels_.shared_with(own), fresh = labels_.shared_with(own, false),
             gone = own.shared_with(labels_, false);
  if (fresh.empty() && !gone.empty()) {
    fail<UsageError>("data",
                     "{} has no text of the label '{}', which the model of {} knows; got {}",
                     train_, gone[0], start_, join(labels_.names()));
  }
  // Other labels may take the places of its own, if there are as many.
  const bool as_many = labels_.size() == own.size();
  if (as_many) labels_ = labels_.placed_as(own);
  const bool has_rows = check_head();
  if (!has_rows || !as_many || fresh.empty() || kept.empty()) return "";
  return fmt::format("the classifier of {} keeps its rows of {}; those of {} become {}", start_,
                     join(kept), join(gone), join(fresh));
}

bool ClassificationTask::starts_from_other_head(const fs::path& start) {
  const auto path = (start / "config.json").string();
  const auto classes = parse_json(read_file(path), path).value("architectures", Json());
  if (!classes.is_array() || classes.empty() || !classes[0].is_string()) return false;
  return !classes[0].get<std::string>().ends_with("ForSequenceClassification");
}

bool ClassificationTask::check_head() const {
  if (!formats::has_weights(start_)) return false;  // rank 0 may see them alone
  const formats::SafetensorsFolder weights(start_);
  const char* head = "classifier.bias";
  if (!weights.tensors().contains(head)) return false;
  const auto& shape = weights.entry(head).shape;
  if (shape.size() != 1 || shape[0] == labels_.size()) return true;
  fail<UsageError>("data",
                   "{} has {} labels ({}), but the classifier of {} tells {} apart; try texts of "
                   "{} labels, or a folder without a classifier, such as the model that this one "
                   "was trained from",
                   train_, labels_.size(), join(labels_.names()), start_, shape[0], shape[0]);
}

std::shared_ptr<dataset::Dataset> ClassificationTask::rows_of(const data::LabelledTexts& texts,
                                                              const std::string& file) const {
  if (!tokenizer_) {
    fail<UsageError>(
        "data", "there is no tokenizer for the texts of {}; try --data.tokenizer FOLDER", file);
  }
  if (tokenizer_->vocab_size() > config_.num_ids()) {
    fail<UsageError>("tasks",
                     "the tokenizer has {} ids, the model's vocab_size is {}; try the model's own "
                     "tokenizer",
                     tokenizer_->vocab_size(), config_.num_ids());
  }
  Padding padding{.most = max_length_, .multiple = pad_to_multiple_of_.value_or(1)};
  padding.id = models::padding_row(config_.pad_token_id, config_.num_ids()).value_or(padding.id);
  if (!texts.seconds.empty() && config_.type_vocab_size < 2) {
    fail<UsageError>("tasks",
                     "text_pair = {} needs type_vocab_size of at least 2; got {}; try texts alone",
                     columns_.second, config_.type_vocab_size);
  }
  return make_text_dataset(texts, labels_, *tokenizer_, padding, file, notes_.get());
}

std::shared_ptr<dataset::Dataset> ClassificationTask::read(const std::string& file) const {
  tell_unread(file);
  return rows_of(data::read_labelled_texts(file, columns_), file);
}

Json ClassificationTask::config_json() const {
  auto json = config_.to_json();
  json["architectures"] = {"BertForSequenceClassification"};
  json["problem_type"] = "single_label_classification";
  labels_.write(json);
  return json;
}

Run ClassificationTask::make_run() {
  Run out;
  notes_ = out.notes;
  out.factory = [config = config_, labels = labels_.size()] {
    return config.make_classifier(labels);
  };
  out.labelled = [](const nn::Bundle& batch, const nn::Context& /*context*/) { return batch; };
  out.scorer = [] { return std::make_unique<LanguageScorer>(/*perplexity=*/false); };
  return out;
}

Run ClassificationTask::prepare(const options::ParallelArguments& parallel) {
  if (train_.empty())
    fail<UsageError>("data", "there are no training texts; try --data.train FILE");
  const auto texts = data::read_labelled_texts(train_, columns_);
  const auto note = find_labels(texts);
  auto out = make_run();
  const auto layout = config_.classifier_layout(!start_.empty() && starts_from_other_head(start_));
  lora_.apply(layout, out);
  check_memory(config_, out.factory(), parallel);
  if (!note.empty()) out.notes->push_back(note);
  tell_unread(train_);
  out.train_data = rows_of(texts, train_);
  if (do_eval_ && !valid_.empty()) out.valid_data = read(valid_);
  out.files.config = config_json();
  keep_tokenizer(tokenizer_, out.files);
  out.files.inputs = {train_, valid_, start_};
  if (!start_.empty()) start_from(start_, config_, layout, out, lora_.adapter());
  return out;
}

Run ClassificationTask::open(const fs::path& folder, OptionTable& table) {
  const auto json = open_trained(folder, table);
  opened_ = folder;
  const auto path = (folder / "config.json").string();
  opened_options_ = &table;
  config_.read(json, path);
  labels_ = Labels::of_config(json, path);
  if (labels_.size() < 2) {
    fail<FileError>("tasks",
                    "{} names {} (id2label, num_labels); expected two or more, as of a classifier; "
                    "one is of a regression, which is not supported",
                    path, plural(labels_.size(), "label"));
  }
  auto names = labels_.names();
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    fail<FileError>("tasks", "{}: id2label has '{}' twice; expected a name for each label", path,
                    *twice);
  }
  lora_.open(folder);
  auto out = make_run();
  const auto from = lora_ ? fs::path(lora_.base()) : folder;
  const auto layout = config_.classifier_layout(lora_ && starts_from_other_head(from));
  lora_.apply(layout, out);
  start_from(from, config_, layout, out, lora_.adapter());
  return out;
}

NamedData ClassificationTask::evaluation_data(const std::string& where) {
  if (!tokenizer_) find_tokenizer();
  const auto& file = where.empty() ? valid_ : where;
  if (file.empty()) return {};
  if (opened_options_ != nullptr) find_pairs(file, *opened_options_);
  return {file, read(file)};
}

}  // namespace convoy::tasks
