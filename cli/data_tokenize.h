#pragma once

#include "cli/commands.h"

namespace convoy::cli {

/// `convoy data tokenize`.
void add_tokenize(CLI::App& data, Run& run);

}  // namespace convoy::cli
