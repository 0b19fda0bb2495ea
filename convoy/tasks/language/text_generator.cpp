#include "convoy/tasks/language/text_generator.h"

#include <algorithm>
#include <iterator>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/tasks/known_text.h"

namespace convoy::tasks {

namespace {

/// Throws UsageError for a prompt that is empty: tokens that a tokenizer adds by itself do not
/// count.
void check_prompt(const tokenizers::Tokenizer& tokenizer, const Prompt& prompt) {
  std::vector<int32_t> plain;
  tokenizer.encode(prompt.text, plain, /*add_special_tokens=*/false);
  if (prompt.text.empty() || plain.empty()) {
    fail<UsageError>("tasks", "{} is empty; expected text to go on from, or to answer",
                     prompt.name);
  }
  check_known(tokenizer, plain, {}, prompt.name, prompt.text);
}

/// Text that the new ids add to the prompt's. Decodes them behind the prompt's last ids, unless
/// these are no text, since a token at the start of a text may be written otherwise.
std::string continuation(const tokenizers::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                         std::span<const int32_t> ids) {
  std::string before;
  size_t count = 0;
  while (before.empty() && count < prompt.size()) {
    count = std::min(prompt.size(), 2 * count + 8);
    before = tokenizer.decode(prompt.last(count));
  }
  const auto end = prompt.last(count);
  std::vector<int32_t> both(end.begin(), end.end());
  both.insert(both.end(), ids.begin(), ids.end());
  const auto whole = tokenizer.decode(both);
  return whole.starts_with(before) ? whole.substr(before.size()) : tokenizer.decode(ids);
}

/// Text before the first of the stop texts.
std::string before_stop(const std::string& text, const std::vector<std::string>& stops) {
  size_t end = text.size();
  for (const auto& stop : stops) end = std::min(end, text.find(stop));
  return text.substr(0, end);
}

/// Number of further ids to decode, since a cut may leave a character incomplete, and some tokens
/// add no text.
constexpr size_t kMargin = 16;

/// Whether the bytes of `text` behind the first `before` complete a stop text.
bool completes_stop(const std::string& text, size_t before, const std::vector<std::string>& stops) {
  return std::any_of(stops.begin(), stops.end(), [&](const auto& stop) {
    const size_t back = stop.size() + kMargin;
    return text.find(stop, before > back ? before - back : 0) != std::string::npos;
  });
}

std::vector<std::string> families_that_generate() {
  auto families = models::language_families();
  std::erase_if(families, [](const auto& family) {
    return models::make_model_config(family)->objective() == models::Objective::HiddenTokens;
  });
  return families;
}

LanguageTask& language_task(Task& any) {
  auto* task = dynamic_cast<LanguageTask*>(&any);
  if (task == nullptr) {
    fail<UsageError>("tasks",
                     "generate goes on from text with a language model; got a {}; try convoy "
                     "predict",
                     any.name());
  }
  if (task->config().objective() == models::Objective::HiddenTokens) {
    fail<UsageError>("tasks",
                     "generate goes on from text, or answers it; got {}, whose positions see both "
                     "sides; expected a model of {}; try convoy predict",
                     task->config().family(), join(families_that_generate()));
  }
  return *task;
}

job::Job job_of(const options::ParallelArguments& parallel) {
  if (parallel.num_stages() > 1) {
    fail<UsageError>("tasks",
                     "pipeline_parallel_size = {} with generate, which goes on with a token at a "
                     "time; try without it",
                     parallel.num_stages());
  }
  job::check_whole_rows(parallel);
  return job::join_job(parallel);
}

}  // namespace

TextGenerator::TextGenerator(Task& task, const Run& run, const options::TrainingArguments& training)
    : task_(language_task(task)),
      run_(run),
      training_(training),
      tokenizer_(task_.tokenizer()),
      sentinels_(task_.sentinels()),
      answers_(task_.config().objective() == models::Objective::Spans),
      job_(job_of(training.parallel)) {}

std::vector<std::vector<int32_t>> TextGenerator::encode(const std::vector<Prompt>& prompts) const {
  std::vector<std::vector<int32_t>> out;
  for (const auto& prompt : prompts) {
    check_prompt(tokenizer_, prompt);
    out.push_back(task_.prompt_ids(prompt.text));
  }
  return out;
}

void TextGenerator::complete(const std::set<std::string>& typed, GenerateOptions& options,
                             std::vector<std::string>& stops,
                             std::vector<std::string>& notes) const {
  const auto said = task_.generation_config();
  for (auto& note : said.take(typed, options, stops)) notes.push_back(std::move(note));
  options.seed = static_cast<uint64_t>(training_.seed);
  options.end_ids = task_.end_ids();
  options.start_id = task_.start_id();
  // config.json has one of the family's usual tokenizer, whatever this model's is.
  const bool names_ends = said.json.contains("eos_token_id");
  for (const int32_t id : options.end_ids) {
    if (!names_ends || id < task_.config().num_ids()) continue;
    notes.push_back(fmt::format(
        "warning: eos_token_id = {} is no id of this model, which has {}: no text ends with it", id,
        task_.config().num_ids()));
  }
  if (is_main() && answers_ && options.max_new_tokens > task_.config().usual_length()) {
    notes.push_back(fmt::format(
        "warning: --max-new-tokens {} is beyond the {} tokens of a usual {} text, and no context "
        "ends an answer earlier: without a token that does it goes on for so long",
        options.max_new_tokens, task_.config().usual_length(), task_.config().family()));
  }
}

void TextGenerator::load() {
  trainer_.emplace(run_.factory, training_, nullptr, nullptr, job_, run_.fill);
}

GenerateReport TextGenerator::generate(
    const std::vector<std::vector<int32_t>>& prompts, GenerateOptions options,
    const std::vector<std::string>& stops,
    const std::function<void(const Generated&, const std::string&)>& use) {
  options.stops = stops;
  if (!stops.empty()) {
    options.is_over = [&](int64_t prompt, std::span<const int32_t> ids) {
      return ends_with_stop(prompts[static_cast<size_t>(prompt)], ids, stops);
    };
  }
  return tasks::generate(
      trainer_->strategy(), task_.config(), prompts, options, [&](const Generated& generated) {
        for (const int32_t id : generated.ids) num_nameless_ += has_name(id) ? 0 : 1;
        const auto text = text_of(prompts[static_cast<size_t>(generated.prompt)], generated.ids);
        use(generated, before_stop(text, stops));
      });
}

bool TextGenerator::ends_with_stop(const std::vector<int32_t>& prompt, std::span<const int32_t> ids,
                                   const std::vector<std::string>& stops) const {
  size_t longest = 0;
  for (const auto& stop : stops) longest = std::max(longest, stop.size());
  // A few of the last ids tell: what stands before them was looked at when it was new.
  for (size_t count = longest + 2 * kMargin;; count *= 2) {
    if (count >= ids.size()) {
      const auto text = text_of(prompt, ids);
      return before_stop(text, stops).size() < text.size();
    }
    const auto last = ids.last(count);
    const auto before = text_of({}, last.first(count - 1)).size();
    if (before >= longest + 2 * kMargin) return completes_stop(text_of({}, last), before, stops);
  }
}

std::string TextGenerator::nameless_tokens() const {
  if (num_nameless_ == 0) return "";
  return fmt::format(
      "warning: {} of these tokens {} none of the tokenizer's {}, and left out of the text: the "
      "model's vocab_size is {}",
      num_nameless_, num_nameless_ == 1 ? "is" : "are", tokenizer_.vocab_size(),
      task_.config().num_ids());
}

bool TextGenerator::has_name(int32_t id) const {
  const auto& marks = sentinels_.ids();
  return tokenizer_.has(id) || std::find(marks.begin(), marks.end(), id) != marks.end();
}

std::string TextGenerator::text_of(const std::vector<int32_t>& prompt,
                                   std::span<const int32_t> ids) const {
  std::vector<int32_t> named;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(named),
               [this](int32_t id) { return has_name(id); });
  return answers_ ? sentinels_.decode(tokenizer_, named) : continuation(tokenizer_, prompt, named);
}

}  // namespace convoy::tasks
