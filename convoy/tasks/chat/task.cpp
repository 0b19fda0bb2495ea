#include "convoy/tasks/chat/task.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/text.h"
#include "convoy/nn/documents.h"
#include "convoy/tasks/language/run_clm.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// Keeps the first `most` conversations of some ranges.
void keep_first(std::vector<ChatRange>& ranges, std::optional<int64_t> most) {
  if (!most) return;
  for (auto& [first, last] : ranges) {
    last = std::min(last, first + *most);
    *most -= last - first;
  }
}

/// Rows of samples that are so many conversations each.
RowsOfConversations rows_of_samples(const std::vector<ChatRange>& ranges, int64_t per_sample) {
  RowsOfConversations out;
  for (const auto& [first, last] : ranges) {
    for (int64_t sample = first; sample < last; ++sample) {
      auto& row = out.emplace_back();
      for (int64_t i = 0; i < per_sample; ++i) row.push_back(sample * per_sample + i);
    }
  }
  return out;
}

int64_t count_of(const std::vector<ChatRange>& ranges) {
  int64_t count = 0;
  for (const auto& [first, last] : ranges) count += last - first;
  return count;
}

}  // namespace

ChatTask::ChatTask(std::string family) : ChatTask(std::move(family), "chat", 1) {}

ChatTask::ChatTask(std::string family, std::string task, int64_t per_sample)
    : LanguageTask(std::move(family), std::move(task)), per_sample_(per_sample) {}

std::vector<std::string> ChatTask::families() {
  auto all = models::language_families();
  std::erase_if(all, [](const auto& family) {
    return models::make_model_config(family)->objective() != models::Objective::NextToken;
  });
  return all;
}

void ChatTask::declare_files(OptionTable& t, const std::string& samples,
                             const std::string& columns) {
  const char* s = "data";
  t.add(s, "train", data_.train,
        fmt::format("{}: .jsonl (.gz, .zst) or .parquet with {}", samples, columns))
      .alias("train_file")
      .path();
  t.add(s, "valid", data_.valid,
        fmt::format("{} to evaluate on; none = hold out the first part of data.train", samples))
      .alias("validation_file")
      .path();
  data_.mixture.declare(t);
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
        fmt::format("percentage of the {} held out for evaluation if data.valid is not given",
                    samples))
      .within(0, 90);
  t.add(s, "max_train_samples", data_.max_train_samples,
        fmt::format("train on the first N {}; none = all", samples))
      .at_least(1);
  t.add(s, "max_eval_samples", data_.max_eval_samples,
        fmt::format("evaluate the first N {}; none = all", samples))
      .at_least(1);
  t.hint({"data.max_length", true, {"max_len", "seq_length", "sequence_length"}});
}

void ChatTask::declare_data(OptionTable& t) {
  declare_files(t, "conversations", "messages, or prompt and completion");
  options_.declare_learning(t);
  options_.declare(t);
  declare_smoothing(t);
  const char* rows = "rows are of conversations; how long they may be: try --max_length";
  answer_run_clm_flags(t, {{"block_size", OtherFlag::Refused, rows},
                           {"assistant_only_loss", OtherFlag::AlwaysOn, "see --train_on"},
                           {"completion_only_loss", OtherFlag::AlwaysOn, "see --train_on"}});
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

const tokenizers::Tokenizer& ChatTask::tokenizer_of(const std::string& file) const {
  if (tokenizer_) return *tokenizer_;
  fail<UsageError>("tasks",
                   "there is no tokenizer for the conversations of {}; try --data.tokenizer "
                   "FOLDER",
                   file);
}

std::shared_ptr<const ChatRows> ChatTask::read_rows(const std::string& file) const {
  tokenizer_of(file).check_tells_spans();
  const auto chat = dated_template();
  std::vector<std::string> unheard;
  return std::make_shared<ChatRows>(ChatReader{.chat = chat ? &*chat : nullptr,
                                               .tokenizer = &*tokenizer_,
                                               .options = &options_,
                                               .max_length = block_size()}
                                        .read(file, notes_ ? *notes_ : unheard));
}

ChatTask::Training ChatTask::read_training() const {
  Training out;
  auto all = std::make_shared<ChatRows>();
  for (const auto& files : training_files()) {
    out.train.emplace_back();
    for (const auto& file : files) {
      const auto rows = read_rows(file);
      const bool holds_out = data_.valid.empty();
      const double percent = holds_out ? data_.validation_split_percentage : 0;
      const int64_t first = num_samples(*all),
                    begin = first + data::num_held_out(num_samples(*rows), percent);
      all->add(*rows);
      out.train.back().push_back({begin, num_samples(*all)});
      if (begin > first) out.held_out.push_back({first, begin});
    }
  }
  out.all = std::move(all);
  return out;
}

uint64_t ChatTask::sum_of(const ChatRows& all, const std::vector<ChatRange>& ranges) const {
  uint64_t sum = 0;
  for (const auto& [first, last] : ranges) {
    const auto begin = static_cast<size_t>(all.begin(first * per_sample_)),
               end = static_cast<size_t>(all.begin(last * per_sample_));
    sum = hash_combine(sum, data::sum_of_ids(std::span(all.ids).subspan(begin, end - begin)));
  }
  return sum;
}

RowsOfConversations ChatTask::rows_of(const ChatRows& all,
                                      const std::vector<ChatRange>& ranges) const {
  if (per_sample_ > 1) return rows_of_samples(ranges, per_sample_);
  const auto capacity = options_.packing ? std::optional(block_size()) : std::nullopt;
  RowsOfConversations out;
  int64_t tokens = 0;
  for (const auto& range : ranges) {
    auto rows = rows_of_conversations(all, range, capacity);
    out.insert(out.end(), std::make_move_iterator(rows.begin()),
               std::make_move_iterator(rows.end()));
    tokens += all.begin(range.last) - all.begin(range.first);
  }
  if (options_.packing && notes_) {
    const auto places = static_cast<double>(std::ssize(out) * block_size());
    notes_->push_back(fmt::format("packed: {} in {} of at most {} tokens, {:.1f} % filled",
                                  plural(count_of(ranges), "conversation"),
                                  plural(std::ssize(out), "row"), block_size(),
                                  100 * static_cast<double>(tokens) / places));
  }
  return out;
}

std::shared_ptr<dataset::Dataset> ChatTask::dataset(std::shared_ptr<const ChatRows> all,
                                                    RowsOfConversations rows,
                                                    std::optional<data::Mixture> mixture) const {
  const auto columns = columns_of(all, rows);
  return make_chat_dataset(std::move(all), std::move(rows), has_documents(), padding(),
                           std::move(mixture), columns);
}

ChatPadding ChatTask::padding() const {
  const auto& pad = tokenizer_->special_ids().pad;
  return {.id = pad && *pad < config_->num_ids() ? *pad : 0,
          .multiple = options_.pad_to_multiple_of.value_or(1),
          .least = least_length_};
}

std::shared_ptr<dataset::Dataset> ChatTask::evaluation_rows(std::shared_ptr<const ChatRows> all,
                                                            std::vector<ChatRange> ranges) const {
  keep_first(ranges, data_.max_eval_samples);
  auto rows = rows_of(*all, ranges);
  return dataset(std::move(all), std::move(rows));
}

std::shared_ptr<dataset::Dataset> ChatTask::training_rows(const Training& training) const {
  const auto& [all, by_source, held_out] = training;
  if (!data_.mixture) {
    auto ranges = by_source.front();
    keep_first(ranges, data_.max_train_samples);
    return dataset(all, rows_of(*all, ranges));
  }
  RowsOfConversations rows;
  std::vector<data::MixtureSource> sources;
  for (const auto& ranges : by_source) {
    auto own = rows_of(*all, ranges);
    sources.push_back({.rows = std::ssize(own), .sum = sum_of(*all, ranges)});
    rows.insert(rows.end(), std::make_move_iterator(own.begin()),
                std::make_move_iterator(own.end()));
  }
  auto mixture = data_.mixture.mixture(std::move(sources));
  if (notes_) notes_->push_back(mixture.text());
  return dataset(all, std::move(rows), std::move(mixture));
}

Run ChatTask::prepare(const options::ParallelArguments& parallel) {
  if (options_.packing) {
    refuse_context_ranks(parallel.num_context_ranks(), "packing = true", "--packing false");
  }
  return LanguageTask::prepare(parallel);
}

Run ChatTask::open(const fs::path& folder, OptionTable& table) {
  auto out = LanguageTask::open(folder, table);
  if (fs::exists(folder / "run.toml")) trained_length_ = block_size();
  return out;
}

std::optional<int64_t> ChatTask::other_length() const {
  return trained_length_ == block_size() ? std::nullopt : trained_length_;
}

void ChatTask::read_data(const options::ParallelArguments& parallel, Run& out) {
  if (takes_random_rows(parallel, out)) return;
  data_.mixture.check_alone(data_.train, data_.max_train_samples.has_value());
  if (data_.train.empty() && !data_.mixture) {
    fail<UsageError>("data", "there are no {} to train on; try --data.train FILE",
                     name_of_samples());
  }
  least_length_ = std::max<int64_t>(2, parallel.num_context_ranks());
  if (has_documents()) nn::check_take_documents(out.factory(), parallel.num_context_ranks());
  const auto training = read_training();
  out.train_data = training_rows(training);
  if (do_eval_ && !data_.valid.empty()) {
    out.valid_data = evaluation_data(data_.valid).data;
  } else if (do_eval_ && !training.held_out.empty()) {
    out.valid_data = evaluation_rows(training.all, training.held_out);
  }
  check_evaluates(out);
  const auto& all = *training.all;
  const auto lengths = out.train_data->row_lengths();
  const auto tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const int64_t length = std::ssize(all.ids) / all.size();
  out.flops_per_sample = config_->training_flops(length) * static_cast<double>(tokens) /
                         static_cast<double>(length * std::ssize(lengths));

  const auto chat = dated_template();
  uint64_t asked = hash_text(options_.train_on + " " + options_.too_long + " " +
                             options_.read_arguments().dump() + std::to_string(block_size()));
  if (chat) asked = hash_combine(asked, hash_text(chat->identity()));
  if (options_.packing) asked = hash_combine(asked, hash_text("packing"));
  if (per_sample_ > 1) asked = hash_combine(asked, hash_text(task_));
  out.files.encoding += fmt::format(", conversations {:016x}", asked);
  if (!chat || chat->file().empty()) return;
  std::erase_if(out.files.copies,
                [](const auto& kept) { return kept.name == chat::kChatTemplate; });
  out.files.copies.emplace_back(chat->file(), chat::kChatTemplate);
}

NamedData ChatTask::evaluation_data(const std::string& where) {
  check_length();
  if (!tokenizer_) tokenizer_ = find_tokenizer();
  const auto& file = where.empty() ? data_.valid : where;
  std::vector<std::string> notes;
  if (const auto trained = other_length()) {
    notes.push_back(
        fmt::format("warning: the run had max_length = {}, and this evaluation has {}: longer {} "
                    "are others than in training",
                    *trained, block_size(), name_of_samples()));
  }
  if (!file.empty()) {
    const auto rows = read_rows(file);
    return {file, evaluation_rows(rows, {{0, num_samples(*rows)}}), std::move(notes)};
  }
  if (data_.train.empty() && !data_.mixture) return {};
  const auto training = read_training();
  if (training.held_out.empty()) return {};
  return {fmt::format("the first {} {} of {}", count_of(training.held_out), name_of_samples(),
                      data_.mixture ? "the mixture's files" : data_.train),
          evaluation_rows(training.all, training.held_out), std::move(notes)};
}

void ChatTask::predict(const PredictionRequest& prediction, const Run& /*run*/,
                       const options::TrainingArguments& /*training*/) {
  fail<UsageError>("tasks",
                   "a model of conversations answers them, and predicts no rows; try convoy "
                   "generate {} --chat",
                   prediction.folder.string());
}

}  // namespace convoy::tasks
