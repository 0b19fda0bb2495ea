#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

/// Words after the program's name, as typed.
const std::vector<std::string>& typed_args();
void set_typed_args(std::vector<std::string> args);

/// Takes the "all" out of `--help all`; help_all() tells whether it was there.
void take_help_all(std::vector<std::string>& args);
bool help_all();

/// CLI11 takes a bare `--` for the end of a sub-command. For `convoy launch ... -- PROGRAM` it must
/// survive until add_launch's work looks at it, as kDoubleDash: call this on the arguments before
/// they are parsed. Arguments of other commands come back as they are.
inline constexpr const char* kDoubleDash = "\x1f--";
std::vector<std::string> keep_double_dash(std::vector<std::string> args);

/// Typed words; a folder after a command that takes one is replaced: a run's by its run.toml; one
/// with Hugging Face's config.json, or that file, by its architecture, and drawn tokens unless
/// there are data. Where no data can be drawn for it, the run.toml beside the file takes its place,
/// too.
std::vector<std::string> with_model_folder(std::vector<std::string> typed);

/// Typed words, with pipes among the inputs of eval, predict and generate read into files: the
/// ranks that such a command starts read them too. Throws UsageError where another launcher started
/// the ranks, since only one of them could read a pipe.
std::vector<std::string> with_lasting_inputs(std::vector<std::string> typed);

}  // namespace convoy::cli
