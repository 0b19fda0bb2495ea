#pragma once

#include <string>

#include "convoy/report/table.h"
#include "convoy/trials/halving.h"

namespace convoy::trials {

/// "learning_rate 0.001, body gpt2": options without their sections.
std::string text_of(const Options& options);

/// "0.0512 +- 0.0051", the standard error where it is known.
std::string score_text(const Score& score);

/// Trials of a search, the best first: options, the score after each round, seconds, and how the
/// trial ended.
report::Table table_of(const Search& search);

}  // namespace convoy::trials
