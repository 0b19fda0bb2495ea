#pragma once

#include <optional>
#include <string_view>

namespace convoy {

/// Whether greater is better by what metrics are usually called: less for names that end in loss,
/// mse, rmse or perplexity, more for NDCG, recall, precision, MRR, accuracy, F1 and AUC, with a
/// cutoff ("_at_10") or without. Nothing for another name.
std::optional<bool> greater_is_better(std::string_view metric);

}  // namespace convoy
