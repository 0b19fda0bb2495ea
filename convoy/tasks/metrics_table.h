#pragma once

#include <string>

#include "convoy/train/callback.h"

namespace convoy::tasks {

/// Table of an evaluation's ranking metrics by cut-off, with standard errors, and beside them what
/// a baseline reaches; "" where there are none.
std::string metrics_table(const train::Metrics& metrics);

/// Lines with the result of an evaluation for people: `title`, the metrics and the table.
std::string evaluation_text(const std::string& title, const train::Metrics& metrics);

}  // namespace convoy::tasks
