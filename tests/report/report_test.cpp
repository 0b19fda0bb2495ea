#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/report/axis.h"
#include "convoy/report/chart.h"
#include "convoy/report/table.h"
#include "tests/report/svg_testing.h"

namespace convoy::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Table, AlignsText) {
  Table table;
  table.column("name", Align::kLeft).column("n");
  table.row({"a", "1"}).row({"caf\xc3\xa9s", "12,345"});
  EXPECT_EQ(table.to_text(),
            "name        n\n"
            "-----  ------\n"
            "a           1\n"
            "caf\xc3\xa9s  12,345\n");
}

TEST(Table, MarkdownKeepsCellsInTheirColumns) {
  Table table;
  table.column("name", Align::kLeft).column("n");
  table.row({"a|b\nc", "1"});
  EXPECT_EQ(table.to_markdown(),
            "| name   |   n |\n"
            "|--------|----:|\n"
            "| a\\|b c |   1 |\n");
}

TEST(Table, RefusesARowOfTheWrongLength) {
  Table table;
  table.column("a");
  EXPECT_THROW(table.row({"1", "2"}), InternalError);
}

TEST(Axis, PutsTicksAtRoundValues) {
  const ChartAxis axis(0, 97, 100, 0, false);
  EXPECT_EQ(axis.ticks(), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_DOUBLE_EQ(axis(0), 100);
  EXPECT_DOUBLE_EQ(axis(100), 0);
  EXPECT_EQ(ChartAxis(0, 0.5, 0, 1, false).label(0.3), "0.3");
  EXPECT_EQ(ChartAxis(0, 50000, 0, 1, false).label(20000), "20,000");
  const ChartAxis log(1, 1000, 0, 300, true);
  EXPECT_EQ(log.ticks(), (std::vector<double>{1, 10, 100, 1000}));
  EXPECT_NEAR(log(100), 200, 1e-9);
}

TEST(Axis, SurvivesStrangeRanges) {
  for (auto [low, high] : std::vector<std::pair<double, double>>{{0, 0},
                                                                 {5, 5},
                                                                 {kInf, -kInf},
                                                                 {kNan, 1},
                                                                 {-1e308, 1e308},
                                                                 {1e-300, 2e-300},
                                                                 {-3, -3},
                                                                 {1e15, 1e15 + 1}}) {
    for (bool log : {false, true}) {
      const ChartAxis axis(low, high, 0, 100, log);
      EXPECT_LT(axis.ticks().size(), 60u) << low << " " << high;
      for (double tick : axis.ticks()) EXPECT_TRUE(std::isfinite(axis(tick))) << low << " " << high;
    }
  }
}

TEST(Svg, EscapesText) {
  EXPECT_EQ(xml_escape("a<b & \"c\">'"), "a&lt;b &amp; &quot;c&quot;&gt;&#39;");
  EXPECT_EQ(xml_escape("caf\xc3\xa9 \x01\xff\xc3"), "caf\xc3\xa9 ");
  EXPECT_EQ(xml_escape("\xed\xa0\x80\xc0\xaf\xf5\x80\x80\x80|"), "|");
}

TEST(Chart, DrawsLinesWithGapsAndLabels) {
  LineChart chart{.title = "Training loss <MovieLens>",
                  .subtitle = "two ranks, dropout on",
                  .x_title = "step",
                  .y_title = "loss",
                  .log_y = true};
  for (int s = 0; s < 3; ++s) {
    Series series{.name = std::vector<std::string>{"single", "dp", "ddp"}[static_cast<size_t>(s)]};
    for (int i = 0; i < 60; ++i) {
      series.x.push_back(i * 10);
      series.y.push_back(s == 1 && i == 30 ? kNan : 7.2 * std::exp(-0.03 * i) + 0.5 * s + 1);
    }
    chart.series.push_back(series);
  }
  const std::string svg = line_chart(chart);
  keep("line.svg", svg);
  EXPECT_TRUE(well_formed(svg));
  EXPECT_EQ(count(svg, "<polyline"), 4u);
  EXPECT_NE(svg.find("Training loss &lt;MovieLens&gt;"), std::string::npos);
  EXPECT_NE(svg.find(">ddp</text>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

/// Picture of a bar chart alone.
std::string bar_chart(const BarChart& chart) {
  Svg svg(720, 400);
  draw(svg, {0, 0, 720, 400}, chart);
  return svg.to_string();
}

TEST(Chart, EmptyAndConstantChartsAreDrawn) {
  EXPECT_TRUE(well_formed(line_chart({})));
  EXPECT_TRUE(well_formed(bar_chart({})));
  EXPECT_TRUE(well_formed(line_chart({.series = {{"one", {1}, {1}}, {"none", {}, {}}}})));
  EXPECT_TRUE(well_formed(bar_chart({.groups = {"a"}, .series = {{"s", {kNan}}, {"t", {-2}}}})));
  EXPECT_THROW(line_chart({.series = {{"bad", {1, 2}, {1}}}}), InternalError);
  EXPECT_THROW(bar_chart({.groups = {"a"}, .series = {{"s", {}}}}), InternalError);
}

TEST(Table, AWideTableComesInParts) {
  Table table;
  table.column("strategy", Align::kLeft).column("one").column("two").column("three");
  table.row({"ddp", "1", "2", "3"});
  EXPECT_EQ(table.to_text(18),
            "strategy  one  two\n"
            "--------  ---  ---\n"
            "ddp         1    2\n"
            "\n"
            "strategy  three\n"
            "--------  -----\n"
            "ddp           3\n");
}

TEST(Table, EachPartHasItsKeysAndTheLastTextRunsOver) {
  Table table;
  table.column("", Align::kLeft).column("zero").column("one").column("two");
  table.column("why", Align::kLeft).keys(2);
  table.row({"*", "1", "10", "20", "as fast as all others"});
  EXPECT_EQ(table.to_text(12),
            "   zero  one\n"
            "-  ----  ---\n"
            "*     1   10\n"
            "\n"
            "   zero  two  why\n"
            "-  ----  ---  ---------------------\n"
            "*     1   20  as fast as all others\n");
}

}  // namespace
}  // namespace convoy::report
