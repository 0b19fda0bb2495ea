#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <set>

#include <CLI/CLI.hpp>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/launch/environment.h"
#include "convoy/tasks/known_text.h"
#include "convoy/tasks/language/generate.h"
#include "convoy/tasks/language/task.h"

namespace convoy::tasks {

namespace {

struct GenerateCommand {
  std::string folder;
  std::vector<std::string> prompts;
  std::string file;
  std::vector<std::string> stops;
  GenerateOptions options;
  std::set<std::string> typed;  ///< keys of Hugging Face's that were said on the command line
  bool no_cache = false;
  bool json = false;
  std::optional<int64_t> nproc;
};

struct GivenPrompts {
  std::vector<std::string> texts;
  std::vector<std::string> names;  ///< of each, for messages
  int64_t num_blank = 0;           ///< lines of the file that were passed over
};

GivenPrompts read_prompts(const GenerateCommand& command) {
  GivenPrompts out;
  out.texts = command.prompts;
  for (size_t i = 0; i < out.texts.size(); ++i)
    out.names.push_back(fmt::format("prompt {}", i + 1));
  if (!command.file.empty()) {
    LineReader in(command.file, "a prompt a line");
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    int64_t number = 0;
    for (std::string line; in.next(line);) {
      if (++number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
      if (line.ends_with('\r')) line.pop_back();
      if (trim(line).empty()) {
        ++out.num_blank;
        continue;
      }
      out.texts.push_back(line);
      out.names.push_back(fmt::format("line {} of {}", number, command.file));
    }
  }
  if (out.texts.empty()) {
    fail<UsageError>("tasks", "there is nothing to go on from; try --prompt TEXT, or --file FILE");
  }
  return out;
}

void check(const GenerateCommand& command) {
  const auto& options = command.options;
  const auto refuse = [](const char* name, const auto& value, const char* expected) {
    fail<UsageError>("tasks", "{} = {}; expected {}", name, value, expected);
  };
  if (options.max_new_tokens < 1 || options.max_new_tokens > kMostNewTokens) {
    refuse("--max-new-tokens", options.max_new_tokens, "1 to 100000000");
  }
  if (!(options.temperature > 0)) {
    refuse("--temperature", options.temperature, "more than 0; without it the best token is taken");
  }
  if (options.top_k < 0) refuse("--top-k", options.top_k, "at least 0");
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    refuse("--top-p", options.top_p, "more than 0 and at most 1");
  }
  if (options.batch_size < 1) refuse("--batch-size", options.batch_size, "at least 1");
  for (const auto& stop : command.stops) {
    if (stop.empty()) refuse("--stop", "''", "some text; without it a text ends by itself");
  }
}

/// What a tokenizer or an encoder adds by itself is no prompt.
void check_prompt(const tokenizers::Tokenizer& tokenizer, const std::string& prompt,
                  const std::string& name) {
  std::vector<int32_t> plain;
  tokenizer.encode(prompt, plain, /*add_special_tokens=*/false);
  if (prompt.empty() || plain.empty()) {
    fail<UsageError>("tasks", "{} is empty; expected text to go on from, or to answer", name);
  }
  check_known(tokenizer, plain, {}, name, prompt);
}

/// What the new ids add to the text of the prompt: a token in front of which nothing stands may be
/// written otherwise. The prompt's last ids tell, unless they are no text.
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

/// The text before the first of these.
std::string before_stop(const std::string& text, const std::vector<std::string>& stops) {
  size_t end = text.size();
  for (const auto& stop : stops) end = std::min(end, text.find(stop));
  return text.substr(0, end);
}

void show(const GenerateCommand& command, const std::string& prompt,
          const std::vector<int32_t>& prompt_ids, const std::string& text,
          const Generated& generated, bool answers) {
  static constexpr const char* kEnds[] = {"length", "end", "stop", "context"};
  if (!command.json) {
    const auto shown = (answers ? "" : prompt) + text;
    fmt::print("{}\n", ::isatty(STDOUT_FILENO) == 1 ? printable_lines(shown) : shown);
    return;
  }
  const Json line{{"prompt", prompt},
                  {"text", text},
                  {"tokens", generated.ids.size()},
                  {"prompt_ids", prompt_ids},
                  {"ids", generated.ids},
                  {"ended", kEnds[static_cast<int>(generated.ended)]}};
  fmt::print("{}\n", json_line(line));
}

std::vector<std::string> families_that_generate() {
  auto families = models::language_families();
  std::erase_if(families, [](const auto& family) {
    return models::make_model_config(family)->objective() == models::Objective::HiddenTokens;
  });
  return families;
}

void run_generate(GenerateCommand command, const GivenPrompts& given, const Program& program,
                  Task& any, const Run& run, const train::TrainingArguments& training) {
  auto* task = dynamic_cast<LanguageTask*>(&any);
  if (task == nullptr) {
    fail<UsageError>("tasks",
                     "generate goes on from text with a language model; got a {}; try convoy "
                     "predict",
                     any.name());
  }
  const auto objective = task->config().objective();
  if (objective == models::Objective::HiddenTokens) {
    fail<UsageError>("tasks",
                     "generate goes on from text, or answers it; got {}, whose positions see both "
                     "sides; expected a model of {}; try convoy predict",
                     task->config().family(), join(families_that_generate()));
  }
  if (training.parallel.num_stages() > 1) {
    fail<UsageError>("tasks",
                     "pipeline_parallel_size = {} with generate, which goes on with a token at a "
                     "time; try without it",
                     training.parallel.num_stages());
  }
  const auto said = task->generation_config();
  for (auto& note : said.take(command.typed, command.options, command.stops)) {
    run.notes->push_back(std::move(note));
  }
  const auto& texts = given.texts;
  if (given.num_blank > 0) {
    run.notes->push_back(
        fmt::format("passed over {} of {}", plural(given.num_blank, "blank line"), command.file));
  }
  const auto& tokenizer = task->tokenizer();
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < texts.size(); ++i) {
    check_prompt(tokenizer, texts[i], given.names[i]);
    prompts.push_back(task->prompt_ids(texts[i]));
  }
  const auto sentinels = task->sentinels();
  const bool answers = objective == models::Objective::Spans;
  auto options = command.options;
  options.use_cache = !command.no_cache;
  options.seed = static_cast<uint64_t>(training.seed);
  options.end_ids = task->end_ids();
  // config.json has one of the family's usual tokenizer, whatever this model's is.
  const bool names_ends = said.json.contains("eos_token_id");
  for (const int32_t id : options.end_ids) {
    if (!names_ends || id < task->config().num_ids()) continue;
    run.notes->push_back(fmt::format(
        "warning: eos_token_id = {} is no id of this model, which has {}: no text ends with it", id,
        task->config().num_ids()));
  }
  const auto& marks = sentinels.ids();
  const auto names = [&](int32_t id) {
    return tokenizer.has(id) || std::find(marks.begin(), marks.end(), id) != marks.end();
  };
  const auto text_of = [&](int64_t prompt, std::span<const int32_t> ids) {
    std::vector<int32_t> named;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(named), names);
    return answers ? sentinels.decode(tokenizer, named)
                   : continuation(tokenizer, prompts[static_cast<size_t>(prompt)], named);
  };
  options.stops = command.stops;
  if (!command.stops.empty()) {
    options.is_over = [&](int64_t prompt, std::span<const int32_t> ids) {
      const auto text = text_of(prompt, ids);
      return before_stop(text, command.stops).size() < text.size();
    };
  }
  auto job = train::join_job(training.parallel);
  if (job.is_main() && answers && options.max_new_tokens > task->config().usual_length()) {
    run.notes->push_back(fmt::format(
        "warning: --max-new-tokens {} is beyond the {} tokens of a usual {} text, and no context "
        "ends an answer earlier: without a token that does it goes on for so long",
        options.max_new_tokens, task->config().usual_length(), task->config().family()));
  }
  train::Trainer trainer(run.factory, training, nullptr, nullptr, job, run.fill);
  if (job.is_main()) program.tell(*run.notes);
  const auto began = std::chrono::steady_clock::now();
  std::ptrdiff_t num_nameless = 0;
  const auto report =
      generate(trainer.strategy(), task->config(), prompts, options, [&](const auto& generated) {
        num_nameless +=
            std::count_if(generated.ids.begin(), generated.ids.end(), std::not_fn(names));
        const auto i = static_cast<size_t>(generated.prompt);
        const auto text = before_stop(text_of(generated.prompt, generated.ids), command.stops);
        show(command, texts[i], prompts[i], text, generated, answers);
      });
  const double seconds = seconds_since(began);
  if (job.is_main()) {
    fmt::print(stderr, "{} tokens in {}, {:.1f} tokens/s, cache {}\n",
               human_count(report.num_tokens), human_seconds(seconds),
               static_cast<double>(report.num_tokens) / std::max(seconds, 1e-9),
               human_bytes(report.cache_bytes));
  }
  if (num_nameless > 0) {
    program.tell({fmt::format(
        "warning: {} of these tokens {} none of the tokenizer's {}, and left out of the text: the "
        "model's vocab_size is {}",
        num_nameless, num_nameless == 1 ? "is" : "are", tokenizer.vocab_size(),
        task->config().num_ids())});
  }
}

void note_typed(const CLI::App& typed, GenerateCommand& command) {
  const bool greedy = typed.count("--do-sample") > 0 && !command.options.sample;
  for (const auto& [name, key] : {std::pair{"--do-sample", "do_sample"},
                                  {"--temperature", "temperature"},
                                  {"--top-k", "top_k"},
                                  {"--top-p", "top_p"},
                                  {"--max-new-tokens", "max_new_tokens"},
                                  {"--stop", "stop_strings"}}) {
    if (typed.count(name) > 0) command.typed.insert(key);
  }
  for (const char* key : {"temperature", "top_k", "top_p"}) {
    if (!command.typed.contains(key)) continue;
    if (greedy) {
      fail<UsageError>("tasks", "{} has no effect with --do-sample=false; try without one of them",
                       key);
    }
    command.options.sample = true;
    command.typed.insert("do_sample");
  }
}

}  // namespace

void add_generate(CLI::App& app, Work& work, const Program& program) {
  auto options = std::make_shared<GenerateCommand>();
  auto& generate = options->options;
  auto* command =
      app.add_subcommand("generate", "Go on from text, or answer it, with a language model");
  command->add_option("folder", options->folder, "output folder of a run, or Hugging Face's")
      ->required();
  command->add_option("--prompt", options->prompts, "text to go on from; may be given again")
      ->allow_extra_args(false);
  command->add_option("--file", options->file, "file with a prompt a line, -: the standard input");
  command->add_option("--max-new-tokens,--max_new_tokens", generate.max_new_tokens,
                      "most tokens to add [50]");
  command->add_flag("--do-sample,--do_sample", generate.sample,
                    "draw tokens by their probability [the best is taken]; =false: never");
  command->add_option("--temperature", generate.temperature, "draw, with scores divided by this");
  command->add_option("--top-k,--top_k", generate.top_k, "draw among so many best");
  command->add_option("--top-p,--top_p", generate.top_p,
                      "draw among the fewest best that have this probability together");
  command->add_option("--stop", options->stops, "end before this text; may be given again")
      ->allow_extra_args(false);
  command->add_option("--batch-size,--batch_size", generate.batch_size, "texts at once [8]");
  command->add_flag("--no-cache", options->no_cache, "compute all positions again for each token");
  command->add_flag("--json", options->json, "print an object a line");
  command->add_option("--nproc", options->nproc, "start this many ranks on this host");
  command->footer(
      "Texts go to the standard output, speed and the memory of the cache to the standard error.\n"
      "--seed decides what is drawn; the options of convoy train for devices hold here too. What a "
      "generation_config.json in the folder says holds where nothing else is typed.\n"
      "Examples:\n  convoy generate runs/gpt2_clm --prompt \"for (int i\"\n"
      "  convoy generate runs/gpt2_clm --file prompts.txt --temperature 0.8 --top-p 0.9 --json\n");
  command->callback([options, command, program, &work] {
    note_typed(*command, *options);
    work = [options, program] {
      check(*options);
      const auto prompts = read_prompts(*options);
      if (auto code = program.launch_ranks(options->nproc)) return *code;
      program.open(options->folder, [&](Task& task, const Run& run, const auto& training) {
        run_generate(*options, prompts, program, task, run, training);
      });
      return 0;
    };
  });
}

}  // namespace convoy::tasks
