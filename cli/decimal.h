#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

namespace convoy::cli {

/// Makes the numbers of all options of `app` and its commands decimal ones that fit, as those of a
/// run's configuration are: CLI11 alone takes 010 for 8, nothing for 0, and what is too large for
/// the largest number. Call it when all options are there.
void read_decimals(CLI::App& app);

}  // namespace convoy::cli
