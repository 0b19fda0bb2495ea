#include <gtest/gtest.h>

#include <cstdlib>

#include "convoy/base/files.h"
#include "convoy/tasks/classification/task.h"
#include "convoy/tasks/language/task.h"
#include "convoy/tasks/session/session_arguments.h"
#include "convoy/tasks/session/task.h"
#include "convoy/train/setup/arguments.h"

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

/// Markdown table of the options of training whose defaults a task replaces.
std::string own_defaults(const Task& task) {
  train::TrainingArguments usual, own;
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

/// docs/options.md is written by this test when CONVOY_UPDATE_DOCS is set, and checked otherwise.
TEST(OptionsPage, IsWhatTheProgramKnows) {
  SessionArguments session;
  train::TrainingArguments training;
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
  for (const auto& family : models::language_families()) page += language_options(family);
  page += options_of(classification, "classification", "model.task = \"classification\"");
  const auto file = std::string(CONVOY_SOURCE_DIR) + "/docs/options.md";
  if (std::getenv("CONVOY_UPDATE_DOCS")) write_file(file, page);
  EXPECT_EQ(read_file(file), page)
      << "try CONVOY_UPDATE_DOCS=1 build/tests/test_tasks --gtest_filter=OptionsPage.*";
}

}  // namespace
}  // namespace convoy::tasks
