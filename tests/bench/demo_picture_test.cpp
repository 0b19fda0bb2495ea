#include <gtest/gtest.h>

#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/bench/strategies_table.h"

namespace convoy::bench {
namespace {

double number(std::string cell) {
  std::erase(cell, ',');
  double out = 0;
  internal_check(parse_number(trim(cell), out), "test", "'{}' is no number", cell);
  return out;
}

/// The rows of the README's table of strategies.
std::vector<StrategyRow> rows_of_readme() {
  std::vector<StrategyRow> rows;
  for (const auto& line : split(read_file(std::string(CONVOY_SOURCE_DIR) + "/README.md"), '\n')) {
    const auto cells = split(line, '|');
    const auto strategy = cells.size() == 16 ? trim(cells[1]) : "";
    if (strategy != "single" && strategy != "dp" && strategy != "ddp") continue;
    StrategyRow row;
    row.strategy = strategy;
    row.ranks = static_cast<int>(number(cells[2]));
    row.samples_per_second = number(cells[5]);
    row.loss = number(cells[12]);
    row.metrics["ndcg@10"] = number(cells[13]);
    rows.push_back(row);
  }
  return rows;
}

/// docs/demo.svg is drawn by this test when CONVOY_UPDATE_DOCS is set, and checked otherwise.
TEST(DemoPicture, ShowsTheTableOfTheReadme) {
  auto rows = rows_of_readme();
  ASSERT_EQ(rows.size(), 3u);
  fill_speedups(rows);
  const auto picture = strategies_svg(rows, "The same training, strategy by strategy",
                                      "MovieLens-100K, two cores of an Intel Xeon");
  const auto file = std::string(CONVOY_SOURCE_DIR) + "/docs/demo.svg";
  if (std::getenv("CONVOY_UPDATE_DOCS")) write_file(file, picture);
  EXPECT_EQ(read_file(file), picture)
      << "try CONVOY_UPDATE_DOCS=1 build/tests/test_bench --gtest_filter=DemoPicture.*";
}

}  // namespace
}  // namespace convoy::bench
