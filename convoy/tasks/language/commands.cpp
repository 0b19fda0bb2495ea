#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>

#include "convoy/base/text.h"
#include "convoy/data/tools/tokenize.h"
#include "convoy/report/progress_line.h"
#include "convoy/tasks/language/task.h"

namespace convoy::tasks {
namespace {

using report::line;

int run_tokenize(const data::TokenizeOptions& options) {
  report::ProgressLine progress("tokenizing");
  const data::TokenizeReport report = data::tokenize(options, progress.function());
  const double seconds = progress.seconds();
  progress.wipe();
  line("texts", "{} ({})", human_count(report.num_texts), human_bytes(report.num_bytes));
  line("tokens", "{}, {:.2f} bytes each", human_count(report.num_tokens),
       static_cast<double>(report.num_bytes) /
           static_cast<double>(std::max<int64_t>(1, report.num_tokens)));
  line("tokenizer", "{}, vocabulary {}", report.fingerprint, human_count(report.vocab_size));
  line("wrote", "{} ({}, {} row groups)", options.output.string(),
       human_bytes(std::filesystem::file_size(options.output)), human_count(report.num_row_groups));
  line("time", "{} ({:.1f} MB/s)", human_seconds(seconds),
       static_cast<double>(report.num_bytes) / 1e6 / std::max(seconds, 1e-9));
  if (report.num_malformed > 0) {
    line("warning", "{} places were not UTF-8 and became U+FFFD; --strict refuses them",
         human_count(report.num_malformed));
  }
  return 0;
}

}  // namespace

void add_language_commands(CLI::App& data, Work& run) {
  auto options = std::make_shared<data::TokenizeOptions>();
  CLI::App* sub = data.add_subcommand("tokenize", "Turn texts into token ids for a language model");
  sub->add_option("input", options->inputs,
                  ".txt (one text per line), .jsonl or Parquet files, - for the standard input")
      ->required();
  sub->add_option("--tokenizer", options->tokenizer,
                  "folder or file: tokenizer.json, vocab.json with merges.txt, vocab.txt, *.model")
      ->required();
  sub->add_option("-o,--output", options->output, "Parquet file to write")->required();
  sub->add_option("--column", options->column, "column of the text, in .jsonl and Parquet")
      ->capture_default_str();
  sub->add_flag("!--no-special-tokens", options->add_special_tokens,
                "do not add the tokenizer's special tokens");
  sub->add_flag("--strict", options->strict,
                "refuse bytes that are not UTF-8 [they become U+FFFD and are counted]");
  sub->add_option("--threads", options->threads, "threads [one per core]");
  sub->footer("Example:\n  convoy data tokenize book.txt --tokenizer gpt2 --output book.parquet");
  sub->callback([options, &run] { run = [options] { return run_tokenize(*options); }; });
}

}  // namespace convoy::tasks
