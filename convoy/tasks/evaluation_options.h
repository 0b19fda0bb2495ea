#pragma once

#include <string>

#include "convoy/tasks/scored_rows.h"

namespace CLI {
class App;
}

namespace convoy::tasks {

/// Adds `--split` to a command that reads the rows of a run's data: valid or test.
void add_split_option(CLI::App& command, std::string& split);

/// Adds the options of `convoy eval` that ask for details of an evaluation.
void add_detail_options(CLI::App& command, EvaluationDetails& details);

}  // namespace convoy::tasks
