#pragma once

#include <array>
#include <string>
#include <utility>

#include "convoy/train/callback.h"

namespace convoy::tasks {

/// Ranking metrics, by the names of results and of tables, in the order that people look for them.
/// Average precision is MRR where one answer is right.
inline constexpr std::array<std::pair<const char*, const char*>, 3> kRankingMetrics{
    {{"ndcg", "NDCG"}, {"recall", "Recall"}, {"mrr", "MRR"}}};

/// Table of an evaluation's ranking metrics by cut-off, with standard errors, and beside them what
/// a baseline reaches; "" where there are none.
std::string metrics_table(const train::Metrics& metrics);

/// Lines with the result of an evaluation for people: `title`, the metrics and the table.
std::string evaluation_text(const std::string& title, const train::Metrics& metrics);

/// Lines of a text, two columns further right; empty ones are left out.
std::string indented(const std::string& text);

}  // namespace convoy::tasks
