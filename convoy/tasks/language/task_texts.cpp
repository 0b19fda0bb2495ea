#include <algorithm>
#include <cstdint>
#include <tuple>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/text.h"
#include "convoy/data/binary_tokens.h"
#include "convoy/nn/documents.h"
#include "convoy/tasks/known_text.h"
#include "convoy/tasks/language/dataset.h"
#include "convoy/tasks/language/task.h"
#include "convoy/tasks/random_data.h"

// Rows of texts for a language model: blocks of tokens.
namespace convoy::tasks {

using models::Objective;

namespace {

constexpr int64_t kTextsAtOnce = 1000;  // as run_clm maps them

/// Ids that carry no content: those that a tokenizer adds to any text, then blanks, and last its
/// unknown token; empty where it has none.
std::vector<int32_t> ids_of_nothing(const std::optional<tokenizers::Tokenizer>& tokenizer) {
  std::vector<int32_t> ids;
  if (!tokenizer) return ids;
  const auto unknown = unknown_id(*tokenizer);
  if (!unknown) return ids;
  tokenizer->encode("", ids);
  if (const auto blank = blank_id(*tokenizer)) ids.push_back(*blank);
  ids.push_back(*unknown);
  return ids;
}

/// Checksum that tells data apart; of another program's file over some of its ids.
uint64_t sum_of(data::TokenStore& ids) {
  return ids.is_foreign() ? data::sum_of_some(ids.view()) : data::sum_of_ids(ids.ids());
}

void keep_first(TokenBlocks& blocks, std::optional<int64_t> most) {
  const auto count = std::min(most.value_or(INT64_MAX), std::ssize(blocks.begins));
  blocks.begins.resize(static_cast<size_t>(count));
}

}  // namespace

void LanguageTask::refuse_context_ranks(int num_context_ranks, const char* asked,
                                        const char* instead) {
  if (num_context_ranks == 1) return;
  fail<UsageError>("data",
                   "{} does not go with context_parallel_size = {}, whose ranks share out the "
                   "positions of each row; try --context_parallel_size 1, or {}",
                   asked, num_context_ranks, instead);
}

int64_t LanguageTask::block_size() const {
  return data_.block_size > 0 ? data_.block_size
                              : std::min(config_->usual_length(), config_->max_length());
}

int64_t LanguageTask::row_length() const {
  const auto check_least = [&](int64_t least, const char* why) {
    if (block_size() >= least) return;
    fail<UsageError>("data", "block_size = {}: {}; expected at least {}", block_size(), why, least);
  };
  if (learns(Objective::NextToken)) check_least(2, "a row of one token has no next one to learn");
  if (!learns(Objective::Spans)) return block_size();
  const auto hides = corruption();
  check_least(hides.input_length(2),
              "a row holds text, a token that stands for what is hidden, and one that ends it");
  const int64_t length = hides.text_length(block_size()), spans = hides.num_spans(length);
  if (spans <= std::ssize(hides.sentinel_ids)) return length;
  fail<UsageError>("tasks",
                   "rows of block_size = {} have {} hidden spans, and there are {} sentinels for "
                   "them ({} and so on, or ids of the model beyond the tokenizer's); try "
                   "a smaller block_size, longer spans, or a larger vocab_size",
                   block_size(), spans, hides.sentinel_ids.size(), config_->mask_token());
}

std::vector<int32_t> LanguageTask::prompt_ids(const std::string& text) {
  const auto& words = tokenizer();
  auto ids = sentinels().encode(words, text);
  if (!learns(Objective::Spans)) return ids;
  // An encoder's texts end as those that it was trained on.
  const auto end = text_end();
  if (end && (ids.empty() || ids.back() != *end)) ids.push_back(*end);
  return ids;
}

std::shared_ptr<const data::TokenTexts> LanguageTask::read(const std::string& file) const {
  auto texts = std::make_shared<data::TokenTexts>(
      data::read_token_texts(file, data_.column, tokenizer_, data_.memory_budget_mb << 20));
  if (texts->fingerprint.empty() && notes_) {
    notes_->push_back(fmt::format(
        "{} does not say which tokenizer made its ids: they are taken as they are", file));
  } else if (!data_.ids_tokenizer.empty() && texts->fingerprint != data_.ids_tokenizer) {
    fail<UsageError>("data",
                     "{} is of another tokenizer ({}) than the ids that the model was trained on "
                     "({}); try ids of that one",
                     file, texts->fingerprint, data_.ids_tokenizer);
  }
  if (!tokenizer_ && texts->vocab_size > config_->num_ids()) {
    fail<UsageError>("data",
                     "{} is of a tokenizer with {} ids, the model's vocab_size is {}; try ids of "
                     "the model's own tokenizer, or a larger vocab_size",
                     file, texts->vocab_size, config_->num_ids());
  }
  if (texts->num_malformed > 0 && notes_) {
    notes_->push_back(fmt::format("warning: {} of {} {} not UTF-8 and became U+FFFD",
                                  plural(texts->num_malformed, "place"), file,
                                  texts->num_malformed == 1 ? "is" : "are"));
  }
  if (texts->ids->is_foreign()) {
    find_documents(*texts, file);
  } else {
    check_tokens(*texts, file);
  }
  return texts;
}

/// Finds the ends of the documents of `file`. Another program's ids are examined when a row is
/// read, as there may be terabytes.
void LanguageTask::find_documents(data::TokenTexts& texts, const std::string& file) const {
  if (texts.size() > 1 || !keeps_apart()) return;
  if (data_.document_end_token >= 0) {
    texts.ends = data::ends_by_token(texts.ids->view(), data_.document_end_token);
    if (texts.size() == 1 && notes_) {
      notes_->push_back(fmt::format("warning: {} has no token {}, and counts as one document", file,
                                    data_.document_end_token));
    }
  } else if (notes_) {
    notes_->push_back(
        fmt::format("warning: {} does not say where its documents end and counts as one; try "
                    "--data.document_end_token ID",
                    file));
  }
}

/// Throws UsageError where the model does not have an id, or the tokenizer knows nothing of a text.
void LanguageTask::check_tokens(const data::TokenTexts& texts, const std::string& file) const {
  const auto nothing = ids_of_nothing(tokenizer_);
  bool known = nothing.empty(), unknown = false;
  for (const int32_t id : texts.ids->ids()) {
    if (id < 0 || id >= config_->num_ids()) {
      refuse_token(file, id, config_->num_ids());
    }
    if (known) continue;
    known = std::find(nothing.begin(), nothing.end(), id) == nothing.end();
    unknown = unknown || id == nothing.back();
  }
  if (!known && unknown) {
    fail<UsageError>("data",
                     "{} holds only tokens that the tokenizer does not know; try the tokenizer "
                     "that belongs to the text's language",
                     file);
  }
}

std::vector<std::vector<std::string>> LanguageTask::training_files() const {
  if (!data_.mixture) return {{data_.train}};
  std::vector<std::vector<std::string>> out;
  for (auto& source : data_.mixture.read()) out.push_back(std::move(source.files));
  return out;
}

TokenBlocks LanguageTask::blocks(const std::shared_ptr<const data::TokenTexts>& texts,
                                 int64_t first_text, int64_t end_text,
                                 const std::string& file) const {
  auto cut = data::cut_blocks(*texts, first_text, end_text,
                              data_.grouping == "run_clm" ? kTextsAtOnce : 0, row_length());
  if (cut.empty()) {
    fail<UsageError>("data",
                     "{} gives no block: {}{} hold fewer than {} tokens together; try a smaller "
                     "--block_size, more text{}",
                     file, plural(end_text - first_text, "text"),
                     first_text > 0 ? " beside those held out for evaluation" : "", row_length(),
                     end_text - first_text > kTextsAtOnce ? ", or --grouping stream" : "");
  }
  TokenBlocks out{texts->ids, std::move(cut)};
  if (keeps_apart()) out.ends = {texts, &texts->ends};
  if (texts->ids->is_foreign())
    std::tie(out.num_ids, out.file) = std::pair(config_->num_ids(), file);
  return out;
}

std::shared_ptr<dataset::Dataset> LanguageTask::evaluation_rows(
    std::vector<TokenBlocks> parts) const {
  auto left = data_.max_eval_samples;
  for (auto& part : parts) {
    keep_first(part, left);
    if (left) *left -= std::ssize(part.begins);
  }
  return make_block_dataset(std::move(parts), row_length());
}

int64_t LanguageTask::num_held_out(const data::TokenTexts& texts) const {
  if (!data_.valid.empty()) return 0;
  return data::num_held_out(texts.size(), data_.validation_split_percentage);
}

void LanguageTask::check_evaluates(const Run& out) const {
  if (!data_.max_eval_samples || !do_eval_ || out.valid_data) return;
  fail<UsageError>("data",
                   "max_eval_samples = {} is without effect: there is no evaluation data; try "
                   "--data.valid FILE, or --validation_split_percentage 5",
                   *data_.max_eval_samples);
}

std::shared_ptr<dataset::Dataset> LanguageTask::random_rows(int64_t count) const {
  auto texts =
      std::make_shared<data::TokenTexts>(random_texts(count, config_->num_ids(), /*seed=*/1));
  auto part = blocks(texts, 0, 1, "data.random_tokens");
  keep_first(part, data_.max_train_samples);
  return make_block_dataset({std::move(part)}, row_length());
}

bool LanguageTask::takes_random_rows(const options::ParallelArguments& parallel, Run& out) const {
  if (!use_random_data(data_.train, parallel, block_size(), *out.notes)) return false;
  constexpr int64_t kRows = 4096;
  out.train_data = random_rows(kRows * row_length());
  const bool evaluates = !data_.valid.empty() || data_.validation_split_percentage > 0;
  if (do_eval_ && evaluates) out.valid_data = out.train_data;
  return true;
}

void LanguageTask::read_data(const options::ParallelArguments& parallel, Run& out) {
  if (data_.random_tokens > 0) {
    check_evaluates(out);
    out.train_data = random_rows(data_.random_tokens);
    return;
  }
  if (keeps_apart()) {
    const int ranks = parallel.num_context_ranks();
    refuse_context_ranks(ranks, "documents = apart", "--documents together");
    nn::check_take_documents(out.factory(), ranks);
  }
  if (takes_random_rows(parallel, out)) return;
  data_.mixture.check_alone(data_.train, data_.max_train_samples.has_value());
  if (data_.train.empty() && !data_.mixture) {
    fail<UsageError>("data", "there is no training text; try --data.train FILE");
  }
  if (!learns(Objective::NextToken) && !tokenizer_) {
    fail<UsageError>("tasks",
                     "a model that names what is hidden needs the tokenizer, for the tokens that "
                     "stand for it; try --data.tokenizer FOLDER");
  }
  data_.ids_tokenizer.clear();
  std::vector<TokenBlocks> train, held_out;
  std::vector<data::MixtureSource> sources;
  int64_t num_texts = 0, num_tokens = 0;
  for (const auto& files : training_files()) {
    auto& source = sources.emplace_back();
    for (const auto& file : files) {
      const auto texts = read(file);
      if (!tokenizer_) data_.ids_tokenizer = texts->fingerprint;
      num_texts += texts->size();
      num_tokens += texts->ids->size();
      const int64_t held = num_held_out(*texts);
      train.push_back(blocks(texts, held, texts->size(), file));
      source.rows += std::ssize(train.back().begins);
      if (data_.mixture) source.sum = hash_combine(source.sum, sum_of(*texts->ids));
      if (held > 0) held_out.push_back(blocks(texts, 0, held, file));
    }
  }
  if (keeps_apart()) {
    const int64_t each = num_tokens / std::max<int64_t>(1, num_texts);
    const int64_t length = std::clamp<int64_t>(each, 2, std::max<int64_t>(2, row_length()));
    out.flops_per_sample = config_->training_flops(length) * static_cast<double>(row_length()) /
                           static_cast<double>(length);
    out.notes->push_back(
        fmt::format("documents = apart: {} of {} tokens on average, none of which "
                    "sees another",
                    plural(num_texts, "text"), each));
  }
  if (!data_.ids_tokenizer.empty()) out.files.encoding = "tokenizer " + data_.ids_tokenizer;
  if (keeps_apart()) {
    auto& encoding = out.files.encoding;
    encoding += encoding.empty() ? "documents apart" : ", documents apart";
  }
  if (data_.mixture) {
    auto mixture = data_.mixture.mixture(std::move(sources));
    out.notes->push_back(mixture.text());
    out.train_data = make_block_dataset(std::move(train), row_length(), std::move(mixture));
  } else {
    keep_first(train[0], data_.max_train_samples);
    out.train_data = make_block_dataset(std::move(train), row_length());
  }
  if (do_eval_ && !data_.valid.empty()) {
    out.valid_data = evaluation_data(data_.valid).data;
  } else if (do_eval_ && !held_out.empty()) {
    out.valid_data = evaluation_rows(std::move(held_out));
  }
  check_evaluates(out);
}

NamedData LanguageTask::evaluation_data(const std::string& where) {
  check_length();
  if (!tokenizer_) tokenizer_ = find_tokenizer();
  const auto name_of = [&](const std::string& what) {
    const auto& most = data_.max_eval_samples;
    return most ? fmt::format("at most {} blocks of {}", *most, what) : what;
  };
  const auto& file = where.empty() ? data_.valid : where;
  if (!file.empty()) {
    const auto texts = read(file);
    return {name_of(file), evaluation_rows({blocks(texts, 0, texts->size(), file)})};
  }
  if (data_.train.empty() && !data_.mixture) return {};
  std::vector<TokenBlocks> held_out;
  int64_t num_texts = 0;
  for (const auto& files : training_files()) {
    for (const auto& name : files) {
      const auto texts = read(name);
      const int64_t held = num_held_out(*texts);
      if (held > 0) held_out.push_back(blocks(texts, 0, held, name));
      num_texts += held;
    }
  }
  if (held_out.empty()) return {};
  const auto what = data_.mixture ? "the mixture's files" : data_.train;
  return {name_of(fmt::format("the first {} texts of {}", num_texts, what)),
          evaluation_rows(std::move(held_out))};
}

}  // namespace convoy::tasks
