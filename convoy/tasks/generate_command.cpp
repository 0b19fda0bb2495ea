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
#include "convoy/report/progress_output.h"
#include "convoy/tasks/answer_lines.h"
#include "convoy/tasks/chat/chat_generator.h"
#include "convoy/tasks/language/text_generator.h"
#include "convoy/tasks/language/text_requests.h"

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
  bool requests = false;
  bool chat = false;
  std::string system;  ///< message that a conversation begins with
  std::optional<int64_t> nproc;
};

struct GivenPrompts {
  std::vector<Prompt> prompts;
  int64_t num_blank = 0;  ///< lines of the file that were passed over
};

GivenPrompts read_prompts(const GenerateCommand& command) {
  GivenPrompts out;
  for (const auto& text : command.prompts) {
    out.prompts.push_back({text, fmt::format("prompt {}", out.prompts.size() + 1)});
  }
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
      out.prompts.push_back({line, fmt::format("line {} of {}", number, command.file)});
    }
  }
  if (out.prompts.empty()) {
    fail<UsageError>("tasks", "there is nothing to go on from; try --prompt TEXT, or --file FILE");
  }
  return out;
}

void show(const GenerateCommand& command, const std::string& prompt,
          const std::vector<int32_t>& prompt_ids, const std::string& text,
          const Generated& generated, bool answers) {
  if (!command.json) {
    const auto shown = (answers ? "" : prompt) + text;
    fmt::print("{}\n", ::isatty(STDOUT_FILENO) == 1 ? printable_lines(shown) : shown);
    return;
  }
  const Json line{
      {"prompt", prompt},         {"text", text},         {"tokens", generated.ids.size()},
      {"prompt_ids", prompt_ids}, {"ids", generated.ids}, {"ended", ended_name(generated.ended)}};
  fmt::print("{}\n", json_line(line));
}

void run_generate(GenerateCommand command, const GivenPrompts& given, const Program& program,
                  TextGenerator& texts, const Run& run) {
  auto& options = command.options;
  texts.complete(command.typed, options, command.stops, *run.notes);
  if (given.num_blank > 0) {
    run.notes->push_back(
        fmt::format("passed over {} of {}", plural(given.num_blank, "blank line"), command.file));
  }
  const auto prompts = texts.encode(given.prompts);
  options.use_cache = !command.no_cache;
  texts.load();
  if (texts.is_main()) program.tell(*run.notes);
  const auto began = std::chrono::steady_clock::now();
  const auto report = texts.generate(
      prompts, options, command.stops, [&](const Generated& generated, const std::string& text) {
        const auto i = static_cast<size_t>(generated.prompt);
        show(command, given.prompts[i].text, prompts[i], text, generated, texts.answers());
      });
  const double seconds = seconds_since(began);
  if (texts.is_main()) {
    report::show_progress(
        fmt::format("{} tokens in {}, {:.1f} tokens/s, cache {}\n", human_count(report.num_tokens),
                    human_seconds(seconds),
                    static_cast<double>(report.num_tokens) / std::max(seconds, 1e-9),
                    human_bytes(report.cache_bytes)),
        stderr);
  }
  if (const auto warning = texts.nameless_tokens(); !warning.empty()) program.tell({warning});
}

/// Default number of new tokens of an answer.
constexpr int64_t kUsualAnswer = 1024;

void run_chat(GenerateCommand command, const Program& program, TextGenerator& texts,
              const Run& run) {
  check_answers_alone(texts.num_ranks());
  if (texts.answers()) {
    fail<UsageError>("tasks", "--chat is for models that go on from text; try without it");
  }
  auto& options = command.options;
  if (!command.typed.contains("max_new_tokens")) options.max_new_tokens = kUsualAnswer;
  texts.complete(command.typed, options, command.stops, *run.notes);
  options.use_cache = !command.no_cache;
  const auto& end = texts.tokenizer().special_ids().eos;
  if (end) options.end_ids.push_back(*end);
  const auto chat = texts.task().chat_template();  // it must be there before weights are read
  texts.load();
  program.tell(*run.notes);
  ChatGenerator answers(texts, options, command.stops, command.system);
  chat_with_person(answers);
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
  auto* command = app.add_subcommand("generate", "Generate text with a language model");
  command->add_option("folder", options->folder, "output folder of a run, or a Hugging Face model")
      ->required();
  command->add_option("--prompt", options->prompts, "text to continue; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--file", options->file,
                      "file with one prompt per line, - for the standard input");
  command->add_option("--max-new-tokens,--max_new_tokens", generate.max_new_tokens,
                      "maximum number of new tokens [50]");
  command->add_flag("--do-sample,--do_sample", generate.sample,
                    "sample tokens by their probability [greedy decoding]; =false: never");
  command->add_option("--temperature", generate.temperature, "sample, with logits divided by this");
  command->add_option("--top-k,--top_k", generate.top_k,
                      "sample among the k most likely tokens [50]; 0: all");
  command->add_option("--top-p,--top_p", generate.top_p,
                      "sample among the fewest tokens with this total probability");
  command->add_option("--stop", options->stops, "stop before this text; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--batch-size,--batch_size", generate.batch_size, "prompts per batch [8]");
  command->add_flag("--no-cache", options->no_cache, "recompute all positions for each token");
  command->add_flag("--json", options->json, "print one JSON object per line");
  command
      ->add_flag("--requests", options->requests,
                 "answer requests from the standard input, one line of JSON each, until it ends")
      ->excludes("--prompt", "--file", "--json");
  auto* chat = command->add_flag("--chat", options->chat,
                                 "chat: answer each line of the standard input as a turn of a "
                                 "conversation");
  chat->excludes("--prompt", "--file", "--json", "--requests");
  command->add_option("--system", options->system, "system message of --chat")->needs(chat);
  command->add_option("--nproc", options->nproc, "start this many ranks on this host");
  command->footer(
      "Texts go to the standard output, speed and the memory of the KV cache to the standard "
      "error.\n"
      "--seed seeds the sampling; convoy train's options for devices apply, too. A "
      "generation_config.json in the folder sets the defaults.\n"
      "Examples:\n  convoy generate runs/gpt2_clm --prompt \"for (int i\"\n"
      "  convoy generate runs/gpt2_clm --file prompts.txt --temperature 0.8 --top-p 0.9 --json\n"
      "  echo '{\"prompt\": \"for\", \"max_new_tokens\": 5}' | convoy generate runs/gpt2_clm "
      "--requests\n"
      "  convoy generate runs/smollm2_lora --chat\n");
  command->callback([options, command, program, &work] {
    note_typed(*command, *options);
    work = [options, program] {
      check(options->options, options->stops);
      const bool reads_lines = options->requests || options->chat;
      const auto prompts = reads_lines ? GivenPrompts() : read_prompts(*options);
      if (auto code = program.launch_ranks(options->nproc)) return *code;
      program.open(options->folder, [&](Task& task, const Run& run, const auto& training) {
        TextGenerator texts(task, run, training);
        if (options->chat) {
          run_chat(*options, program, texts, run);
        } else if (options->requests) {
          texts.complete(options->typed, options->options, options->stops, *run.notes);
          program.tell(*run.notes);
          answer_requests(texts, {options->options, options->stops});
        } else {
          run_generate(*options, prompts, program, texts, run);
        }
      });
      return 0;
    };
  });
}

}  // namespace convoy::tasks
