#include "convoy/tasks/text_output.h"

#include <algorithm>
#include <cerrno>
#include <iostream>

#include "convoy/base/error.h"
#include "convoy/data/parquet_files.h"

namespace convoy::tasks {

TextOutput::TextOutput(const std::filesystem::path& file)
    : shown_(file == "-" ? "the standard output" : file.string()) {
  if (file == "-") return;
  file_.emplace(file);
  to_file_.open(file_->temporary());
  check();
}

void TextOutput::put(const std::string& text) {
  errno = 0;
  out() << text;
  check();
}

void TextOutput::finish() {
  errno = 0;
  out().flush();
  check();
  if (!file_) return;
  to_file_.close();
  check();
  file_->commit();
}

std::ostream& TextOutput::out() {
  return file_ ? to_file_ : std::cout;
}

void TextOutput::check() {
  if (!out()) fail<FileError>("tasks", "cannot write {}: {}", shown_, write_trouble(errno));
}

namespace {

/// Whether a table has the form of predictions; false where it cannot be read.
bool is_prediction(const std::filesystem::path& file) {
  try {
    return std::ranges::count(data::ParquetFiles(file.string()).columns(), "rank",
                              &data::ColumnInfo::name) > 0;
  } catch (const Error&) {
    return false;
  }
}

/// Throws for an output that would replace a file of a run, a checkpoint or prepared data, such as
/// a log, or a table that holds no predictions.
void check_keeps_ours(const std::filesystem::path& file) {
  const auto folder = std::filesystem::absolute(file).parent_path();
  std::error_code none;
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name, none); };
  const bool is_ours = has("schema.json") || has("run.toml") || has("config.json") ||
                       has("trainer_state.json") || has("results_over_time.json");
  if (!is_ours || !std::filesystem::is_regular_file(file, none)) return;
  const bool is_table = file.extension() == ".parquet";
  if (is_table ? is_prediction(file) : file.filename() != "log.jsonl") return;
  fail<UsageError>("tasks", "--output {} would replace a file of {}; try another name",
                   file.string(), folder.string());
}

}  // namespace

void check_output(const std::filesystem::path& file, const char* what, bool tables,
                  const std::vector<std::filesystem::path>& inputs) {
  const auto ending = file.extension();
  if (ending != ".csv" && ending != ".jsonl" && !(tables && ending == ".parquet")) {
    fail<UsageError>("tasks",
                     "cannot write {} to {}; expected a name that ends in {}, or - for the "
                     "standard output",
                     what, file.string(), tables ? ".csv, .jsonl or .parquet" : ".csv or .jsonl");
  }
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    fail<UsageError>("tasks", "--output {} is a folder; try another name", file.string());
  }
  check_keeps_inputs("tasks", file, inputs);
  check_keeps_ours(file);
}

std::string csv_value(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace convoy::tasks
