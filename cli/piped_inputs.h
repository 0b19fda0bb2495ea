#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

/// What was typed, with pipes among the inputs of eval, predict and generate read into files: the
/// ranks that such a command starts read them too. Throws UsageError where another launcher started
/// the ranks, of which none can have what the others read.
std::vector<std::string> with_lasting_inputs(std::vector<std::string> typed);

}  // namespace convoy::cli
