#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

/// CLI11 takes a bare `--` for the end of a sub-command. For `convoy launch ... -- PROGRAM` it must
/// survive until add_launch's work looks at it: call this on the arguments (without the program's
/// name) before they are parsed. Arguments of other commands come back as they are.
std::vector<std::string> keep_double_dash(std::vector<std::string> arguments);

}  // namespace convoy::cli
