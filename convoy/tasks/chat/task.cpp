#include "convoy/tasks/chat/task.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/text.h"
#include "convoy/nn/documents.h"
#include "convoy/tasks/language/run_clm.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// End of the first `most` conversations from `first` on.
int64_t end_of(int64_t first, int64_t last, std::optional<int64_t> most) {
  return most ? std::min(last, first + *most) : last;
}

}  // namespace

ChatTask::ChatTask(std::string family) : LanguageTask(std::move(family), "chat") {}

std::vector<std::string> ChatTask::families() {
  auto all = models::language_families();
  std::erase_if(all, [](const auto& family) {
    return models::make_model_config(family)->objective() != models::Objective::NextToken;
  });
  return all;
}

void ChatTask::declare_data(OptionTable& t) {
  const char* s = "data";
  t.add(s, "train", data_.train,
        "conversations: .jsonl (.gz, .zst) or .parquet with messages, or prompt and completion")
      .alias("train_file")
      .path();
  t.add(s, "valid", data_.valid,
        "conversations to evaluate on; none = hold out the first part of data.train")
      .alias("validation_file")
      .path();
  t.add(s, "tokenizer", data_.tokenizer,
        "folder or file of the tokenizer; none = the model's own folder")
      .alias("tokenizer_name")
      .path();
  t.add(s, "max_length", data_.block_size,
        fmt::format("most tokens of a conversation; 0 = {}, or the model's maximum if less",
                    config_->usual_length()))
      .at_least(0)
      .alias("max_seq_length");
  t.add(s, "validation_split_percentage", data_.validation_split_percentage,
        "percentage of the conversations held out for evaluation if data.valid is not given")
      .within(0, 90);
  t.add(s, "max_train_samples", data_.max_train_samples,
        "train on the first N conversations; none = all")
      .at_least(1);
  t.add(s, "max_eval_samples", data_.max_eval_samples,
        "evaluate the first N conversations; none = all")
      .at_least(1);
  options_.declare(t);
  const char* rows = "rows are of conversations; how long they may be: try --max_length";
  answer_run_clm_flags(t, {{"block_size", OtherFlag::Refused, rows},
                           {"assistant_only_loss", OtherFlag::AlwaysOn, "see --train_on"},
                           {"completion_only_loss", OtherFlag::AlwaysOn, "see --train_on"}});
  t.hint({"data.max_length", true, {"max_len", "seq_length", "sequence_length"}});
}

void ChatTask::settle(OptionTable& table) {
  LanguageTask::settle(table);
  options_.read_arguments();
  const auto is_on = [&](const char* key) { return table.find(key)->plain() == "true"; };
  if (!options_.pad_to_multiple_of && (is_on("train.bf16") || is_on("train.fp16"))) {
    table.set("data.pad_to_multiple_of", "8", "16-bit products");
  }
  settle_date(table);
}

void ChatTask::settle_date(OptionTable& table) {
  const auto found = find_template(options_.chat_template);
  if (!found || !found->asks_for_date() || !options_.date.empty()) return;
  const char* key = "data.template_date";
  const auto resumes = table.find("train.resume_from_checkpoint")->plain();
  const fs::path output = table.find("output.dir")->plain();
  const bool goes_on = !resumes.empty() && resumes != "false";
  for (const auto& place : {fs::path(resumes), output}) {
    std::error_code error;
    if (!goes_on || !fs::is_regular_file(place / "run.toml", error)) continue;
    const auto values = toml_values(place / "run.toml");
    const auto day = values.find(key);
    if (day != values.end() && !day->second.empty()) {
      return table.set(key, day->second, (place / "run.toml").string());
    }
  }
  table.set(key, today(), "today");
}

std::optional<chat::ChatTemplate> ChatTask::dated_template() const {
  auto found = find_template(opened_.empty() ? options_.chat_template : "");
  if (found && found->asks_for_date()) {
    found->set_date(options_.date.empty() ? today() : options_.date);
  }
  return found;
}

chat::ChatTemplate ChatTask::chat_template() const {
  auto found = dated_template();
  return found ? std::move(*found) : LanguageTask::chat_template();
}

chat::OrderedJson ChatTask::template_arguments() const {
  return options_.read_arguments();
}

std::shared_ptr<const ChatRows> ChatTask::read_rows(const std::string& file) const {
  if (!tokenizer_) {
    fail<UsageError>("tasks",
                     "there is no tokenizer for the conversations of {}; try --data.tokenizer "
                     "FOLDER",
                     file);
  }
  tokenizer_->check_tells_spans();
  const auto chat = dated_template();
  std::vector<std::string> unheard;
  return std::make_shared<ChatRows>(ChatReader{.chat = chat ? &*chat : nullptr,
                                               .tokenizer = &*tokenizer_,
                                               .options = &options_,
                                               .max_length = block_size()}
                                        .read(file, notes_ ? *notes_ : unheard));
}

std::shared_ptr<train::Dataset> ChatTask::dataset(std::shared_ptr<const ChatRows> all,
                                                  int64_t first, int64_t last) const {
  const bool packed = options_.packing;
  const auto capacity = packed ? std::optional(block_size()) : std::nullopt;
  auto rows = rows_of_conversations(*all, first, last, capacity);
  if (packed && notes_) {
    const auto places = static_cast<double>(std::ssize(rows) * block_size());
    const auto filled = static_cast<double>(all->begin(last) - all->begin(first)) / places;
    notes_->push_back(fmt::format("packed: {} in {} of at most {} tokens, {:.1f} % filled",
                                  plural(last - first, "conversation"),
                                  plural(std::ssize(rows), "row"), block_size(), 100 * filled));
  }
  const auto& pad = tokenizer_->special_ids().pad;
  return make_chat_dataset(std::move(all), std::move(rows), packed,
                           {.id = pad && *pad < config_->num_ids() ? *pad : 0,
                            .multiple = options_.pad_to_multiple_of.value_or(1),
                            .least = least_length_});
}

Run ChatTask::prepare(const train::ParallelArguments& parallel) {
  if (options_.packing && parallel.num_context_ranks() > 1) {
    fail<UsageError>("data",
                     "packing = true does not go with context_parallel_size = {}, whose ranks "
                     "share out the positions of each row; try --context_parallel_size 1, or "
                     "--packing false",
                     parallel.num_context_ranks());
  }
  return LanguageTask::prepare(parallel);
}

void ChatTask::read_data(const train::ParallelArguments& parallel, Run& out) {
  if (takes_random_rows(parallel, out)) return;
  if (data_.train.empty()) {
    fail<UsageError>("data", "there are no conversations to train on; try --data.train FILE");
  }
  least_length_ = std::max<int64_t>(2, parallel.num_context_ranks());
  const auto rows = read_rows(data_.train);
  const int64_t held_out =
      data_.valid.empty() ? data::num_held_out(rows->size(), data_.validation_split_percentage) : 0;
  const int64_t end = end_of(held_out, rows->size(), data_.max_train_samples);
  if (options_.packing) nn::check_take_documents(out.factory(), parallel.num_context_ranks());
  out.train_data = dataset(rows, held_out, end);
  if (do_eval_ && !data_.valid.empty()) {
    out.valid_data = evaluation_data(data_.valid).data;
  } else if (do_eval_ && held_out > 0) {
    out.valid_data = dataset(rows, 0, end_of(0, held_out, data_.max_eval_samples));
  }
  check_evaluates(out);
  out.flops_per_sample = config_->training_flops(std::ssize(rows->ids) / rows->size()) *
                         static_cast<double>(end - held_out) /
                         static_cast<double>(out.train_data->row_lengths().size());

  const auto chat = dated_template();
  uint64_t asked = hash_text(options_.train_on + " " + options_.too_long + " " +
                             options_.read_arguments().dump() + std::to_string(block_size()));
  if (chat) asked = hash_combine(asked, hash_text(chat->identity()));
  if (options_.packing) asked = hash_combine(asked, hash_text("packing"));
  out.files.encoding += fmt::format(", conversations {:016x}", asked);
  if (!chat || chat->file().empty()) return;
  std::erase_if(out.files.copies,
                [](const auto& kept) { return kept.name == chat::kChatTemplate; });
  out.files.copies.emplace_back(chat->file(), chat::kChatTemplate);
}

NamedData ChatTask::evaluation_data(const std::string& where) {
  if (!tokenizer_) tokenizer_ = find_tokenizer();
  const auto& file = where.empty() ? data_.valid : where;
  if (!file.empty()) {
    const auto rows = read_rows(file);
    return {file, dataset(rows, 0, end_of(0, rows->size(), data_.max_eval_samples))};
  }
  if (data_.train.empty()) return {};
  const auto rows = read_rows(data_.train);
  const auto held_out = data::num_held_out(rows->size(), data_.validation_split_percentage);
  if (held_out == 0) return {};
  return {fmt::format("the first {} of {}", plural(held_out, "conversation"), data_.train),
          dataset(rows, 0, end_of(0, held_out, data_.max_eval_samples))};
}

void ChatTask::predict(const Prediction& prediction, const Run& /*run*/,
                       const train::TrainingArguments& /*training*/) {
  fail<UsageError>("tasks",
                   "a model of conversations answers them, and predicts no rows; try convoy "
                   "generate {} --chat",
                   prediction.folder.string());
}

}  // namespace convoy::tasks
