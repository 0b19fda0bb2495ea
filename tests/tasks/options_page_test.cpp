#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/options/arguments.h"
#include "convoy/tasks/chat/task.h"
#include "convoy/tasks/classification/task.h"
#include "convoy/tasks/language/task.h"
#include "convoy/tasks/preference/task.h"
#include "convoy/tasks/session/session_arguments.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {
namespace {

std::string options_of(Task& task, const std::string& title, const std::string& key) {
  OptionTable table;
  task.declare(table);
  return "\n# Options of " + title + "\n\nWith `" + key +
         "`: these in place of the sections model and data above.\n" + table.to_markdown();
}

std::string language_options(const std::string& family) {
  LanguageTask task(family);
  return options_of(task, family, "model.family = \"" + family + "\"");
}

/// The rows of a page of options, by option.
std::map<std::string, std::string> rows_of(const std::string& page) {
  std::map<std::string, std::string> out;
  for (const auto& line : split(page, '\n')) {
    if (line.starts_with("| `")) out[line.substr(2, line.find('`', 3) - 1)] = line;
  }
  return out;
}

/// Options of a task beside those of texts, in the order of its own.
std::string options_beside_texts(Task& task, const std::string& name) {
  LanguageTask texts("llama");
  OptionTable own, known;
  task.declare(own);
  texts.declare(known);
  const auto rows = rows_of(own.to_markdown()), other = rows_of(known.to_markdown());
  std::string page = "\n# Options of " + name + "\n\nWith `model.task = \"" + name +
                     "\"`: options of the model's family, and these in place of those of texts.\n\n"
                     "| option | type | default | meaning |\n|---|---|---|---|\n";
  for (const auto& option : own.options()) {
    const auto row = rows.find("`" + option.name + "`");
    if (option.section == "model" || row == rows.end()) continue;
    const auto found = other.find(row->first);
    if (found == other.end() || found->second != row->second) page += row->second + "\n";
  }
  return page;
}

/// Markdown table of the options of training whose defaults a task replaces.
std::string own_defaults(const Task& task) {
  options::TrainingArguments usual, own;
  OptionTable usual_table, own_table;
  usual.declare(usual_table);
  task.set_defaults(own);
  own.declare(own_table);
  std::string out = "| option | default |\n|---|---|\n";
  for (const auto& option : own_table.options()) {
    if (option.initial == usual_table.find(option.key())->initial) continue;
    out += "| `" + option.name + "` | `" + option.initial + "` |\n";
  }
  return out;
}

/// Options of a family that has most of them, and most defaults, with another.
std::string options_beside(const std::string& family, const std::string& other) {
  const auto own = rows_of(language_options(family)), known = rows_of(language_options(other));
  std::string changed;
  std::vector<std::string> lacking;
  for (const auto& [name, row] : own) {
    const auto found = known.find(name);
    if (name != "`family`" && (found == known.end() || found->second != row)) changed += row + "\n";
  }
  for (const auto& [name, row] : known) {
    if (!own.contains(name)) lacking.push_back(name);
  }
  auto page = "\n# Options of " + family + "\n\nWith `model.family = \"" + family +
              "\"`: those of " + other + ", but for these.\n\n" +
              "| option | type | default | meaning |\n|---|---|---|---|\n" + changed;
  if (!lacking.empty()) page += "\nNot here: " + join(lacking) + ".\n";
  return page;
}

bool is_decoder_beside(const std::string& family, const std::string& other) {
  const auto config = models::make_model_config(family);
  return family != other && dynamic_cast<models::DecoderConfig*>(config.get()) != nullptr;
}

/// docs/options.md is written by this test when CONVOY_UPDATE_DOCS is set, and checked otherwise.
TEST(OptionsPage, IsWhatTheProgramKnows) {
  SessionArguments session;
  options::TrainingArguments training;
  ClassificationTask classification;
  OptionTable table;
  session.declare(table);
  training.declare(table);
  auto page =
      "# Options\n\nKeys of the TOML file by section. On the command line `--section.name VALUE` "
      "and "
      "`--name VALUE` are\nthe same; aliases are in brackets.\n" +
      table.to_markdown() +
      "\n# Defaults of session models\n\nThe defaults of section train above are Hugging Face's. "
      "Session models have these in their place:\n\n" +
      own_defaults(SessionTask());
  const std::string first = "llama";
  for (const auto& family : models::language_families()) {
    page +=
        is_decoder_beside(family, first) ? options_beside(family, first) : language_options(family);
  }
  page += options_of(classification, "classification", "model.task = \"classification\"");
  ChatTask chat("llama");
  PreferenceTask preference("llama");
  page += options_beside_texts(chat, "chat") + options_beside_texts(preference, "preference") +
          "\nThese defaults are TRL's:\n\n" + own_defaults(preference);
  const auto file = std::string(CONVOY_SOURCE_DIR) + "/docs/options.md";
  if (std::getenv("CONVOY_UPDATE_DOCS")) write_file(file, page);
  EXPECT_EQ(read_file(file), page)
      << "try CONVOY_UPDATE_DOCS=1 build/tests/test_tasks --gtest_filter=OptionsPage.*";
}

}  // namespace
}  // namespace convoy::tasks
