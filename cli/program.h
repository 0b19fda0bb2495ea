#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/tasks/task.h"

namespace convoy::cli {

/// Typed options of the run, as --section.name=value.
std::vector<std::string> typed_overrides();

/// A help text in lines of at most 120 columns; descriptions are indented where they began.
std::string fitted(const std::string& help);

/// Commands whose options may be overridden by `--section.name value` or `--name value`.
bool takes_config(const std::vector<std::string>& args);

/// A run's configuration with its option table; not to be copied, for the table points into it.
struct Configured {
  std::unique_ptr<tasks::Task> task;
  options::TrainingArguments training;
  OptionTable table;
  std::vector<std::string> notes;  ///< sentences for a person about where options came from

  /// All options of the task that was typed.
  Configured();
  /// Adds to the notes of `run` the flags that were typed without effect, and notes.
  void note_flags(tasks::Run& run) const;
  Configured(const Configured&) = delete;
  Configured& operator=(const Configured&) = delete;
};

/// A run opened from a folder, with its options and the typed ones. Throws UsageError where a typed
/// option of the model is not as it was trained.
struct Opened : Configured {
  explicit Opened(const std::string& folder);
  tasks::Run run;
};

/// ", which is of model.family = NAME" or ", which is of model.task = NAME": an option that the
/// typed family, or its task, does not have; "": none has it. `table` is of what was typed.
std::string of_other_families(const std::string& name, const OptionTable& table);

/// Text of `--help` for a command that opens a run: its own options, then `examples`, then the
/// options that it shares with training.
std::string help_of_opened(const std::function<std::string(const tasks::Task&)>& examples);

/// Prints notes for a person, apart from the output: a program may read that.
void tell(const std::vector<std::string>& notes);

/// Reads the TOML file (if any), applies the overrides that were typed and then `more`, checks the
/// ranges.
std::unique_ptr<Configured> read_config(const std::string& file,
                                        const std::vector<std::string>& more = {});

}  // namespace convoy::cli
