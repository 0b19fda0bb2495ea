#include "convoy/trials/table.h"

#include "convoy/base/text.h"

namespace convoy::trials {

namespace {

std::string name_of(const std::string& option) {
  return option.substr(option.find('.') + 1);
}

std::string end_of(const Search& search, const Trial& trial) {
  if (trial.failed()) return "failed: " + trial.failure;
  if (trial.scores.size() == search.rungs.size()) return "trained to the end";
  return fmt::format("left after round {}", trial.scores.size());
}

}  // namespace

std::string text_of(const Options& options) {
  std::vector<std::string> parts;
  for (const auto& [option, value] : options) parts.push_back(name_of(option) + " " + value);
  return join(parts);
}

std::string score_text(const Score& score) {
  if (score.error) return fmt::format("{:.4f} +- {:.4f}", score.value, *score.error);
  return fmt::format("{:.4f}", score.value);
}

report::Table table_of(const Search& search) {
  report::Table table;
  table.column("trial");
  for (const auto& [option, value] : search.trials.front().options) table.column(name_of(option));
  for (const auto& rung : search.rungs) {
    table.column(rung.share < 1 ? fmt::format("at {:.3g} %", 100 * rung.share) : "at the end");
  }
  table.column("seconds").column("", report::Align::kLeft);
  for (const size_t i : search.best_first()) {
    const auto& trial = search.trials[i];
    std::vector<std::string> row{std::to_string(i)};
    for (const auto& [option, value] : trial.options) row.push_back(value);
    double seconds = 0;
    for (size_t rung = 0; rung < search.rungs.size(); ++rung) {
      const bool has = rung < trial.scores.size();
      row.push_back(has ? score_text(trial.scores[rung]) : "-");
      if (has) seconds += trial.scores[rung].seconds;
    }
    row.push_back(fmt::format("{:.1f}", seconds));
    row.push_back(end_of(search, trial));
    table.row(std::move(row));
  }
  return table;
}

}  // namespace convoy::trials
