#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/report/axis.h"
#include "convoy/report/chart.h"
#include "convoy/report/strategies.h"
#include "convoy/report/table.h"

namespace convoy::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

/// Every opened element is closed, in order, and nothing but text stands between.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size();) {
    if (xml[at] != '<') {
      if (xml[at] == '>') return false;
      ++at;
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return false;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    at = end + 1;
  }
  return open.empty();
}

/// With CONVOY_KEEP_CHARTS=DIR the pictures are kept to be looked at.
void keep(const char* name, const std::string& svg) {
  if (const char* folder = std::getenv("CONVOY_KEEP_CHARTS")) {
    write_file(std::filesystem::path(folder) / name, svg);
  }
}

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
  const Axis axis(0, 97, 100, 0, false);
  EXPECT_EQ(axis.ticks(), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_DOUBLE_EQ(axis(0), 100);
  EXPECT_DOUBLE_EQ(axis(100), 0);
  EXPECT_EQ(Axis(0, 0.5, 0, 1, false).label(0.3), "0.3");
  EXPECT_EQ(Axis(0, 50000, 0, 1, false).label(20000), "20,000");
  const Axis log(1, 1000, 0, 300, true);
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
      const Axis axis(low, high, 0, 100, log);
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

TEST(Chart, EmptyAndConstantChartsAreDrawn) {
  EXPECT_TRUE(well_formed(line_chart({})));
  EXPECT_TRUE(well_formed(grouped_bar_chart({})));
  EXPECT_TRUE(well_formed(line_chart({.series = {{"one", {1}, {1}}, {"none", {}, {}}}})));
  EXPECT_TRUE(
      well_formed(grouped_bar_chart({.groups = {"a"}, .series = {{"s", {kNan}}, {"t", {-2}}}})));
  EXPECT_THROW(line_chart({.series = {{"bad", {1, 2}, {1}}}}), InternalError);
  EXPECT_THROW(grouped_bar_chart({.groups = {"a"}, .series = {{"s", {}}}}), InternalError);
}

std::vector<StrategyRow> example_rows() {
  std::vector<StrategyRow> rows;
  const auto add = [&](const char* name, int ranks, double rate, double loss, double ndcg) {
    StrategyRow row{
        .strategy = name, .ranks = ranks, .seconds = 100000 / rate, .samples_per_second = rate};
    row.exchanges_per_step = ranks > 1 ? 3 : 0;
    row.bytes_per_step = ranks > 1 ? 5.3e6 : 0;
    row.peak_memory_bytes_per_rank = 480 << 20;
    row.loss = loss;
    row.metrics = {{"eval_ndcg@10", ndcg}, {"eval_recall@10", ndcg * 1.9}};
    rows.push_back(row);
  };
  add("single", 1, 1210, 6.1234, 0.0512);
  add("dp", 2, 2105, 6.1234, 0.0512);
  add("ddp", 2, 2290, 6.1234, 0.0512);
  add("dp", 4, 3600, 6.1236, 0.0511);
  add("ddp", 4, 4310, 6.1236, 0.0511);
  fill_speedups(rows);
  return rows;
}

TEST(Strategies, SpeedupIsAgainstTheSingleDevice) {
  auto rows = example_rows();
  std::swap(rows[0], rows[1]);
  fill_speedups(rows);
  EXPECT_DOUBLE_EQ(rows[1].speedup, 1);
  EXPECT_NEAR(rows[2].speedup, 2290.0 / 1210, 1e-12);
  EXPECT_NEAR(rows[4].efficiency, 4310.0 / 1210 / 4, 1e-12);
}

TEST(Strategies, TableShowsWhatPeopleCompare) {
  const std::string text = strategies_table(example_rows()).to_markdown();
  for (const char* part : {"| strategy |", "threads per rank", "exchanges/step", "peak memory/rank",
                           "1.89x", "95%", "2,290", "6.1234", "0.0512", "0.0973", "480.0 MiB"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  auto rows = example_rows();
  rows[1].device_memory_bytes_per_rank = int64_t{3} << 30;
  EXPECT_NE(strategies_table(rows).to_text().find("480.0 MiB, GPU 3.00 GiB"), std::string::npos);
  EXPECT_EQ(strategies_json(rows)[1]["device_memory_bytes_per_rank"], int64_t{3} << 30);
  StrategyRow unknown{.strategy = "x"};
  EXPECT_NE(strategies_table({unknown}).to_text().find(" - "), std::string::npos);
}

TEST(Strategies, JsonHasExactlyTheAgreedKeys) {
  auto rows = example_rows();
  rows[0].loss = kNan;
  const Json json = parse_json(strategies_json(rows).dump(), "test");
  ASSERT_EQ(json.size(), 5u);
  std::set<std::string> keys;
  for (const auto& [key, value] : json[0].items()) keys.insert(key);
  EXPECT_EQ(keys,
            (std::set<std::string>{"strategy", "ranks", "threads", "seconds", "samples_per_second",
                                   "speedup", "efficiency", "exchanges_per_step", "bytes_per_step",
                                   "peak_memory_bytes_per_rank", "loss", "metrics"}));
  EXPECT_TRUE(json[0]["loss"].is_null());
  EXPECT_EQ(json[2]["strategy"], "ddp");
  EXPECT_DOUBLE_EQ(json[2]["metrics"]["eval_ndcg@10"].get<double>(), 0.0512);
}

TEST(Strategies, PictureHoldsEveryRow) {
  const std::string svg = strategies_svg(example_rows(), "MovieLens-100K: three ways to train",
                                         "same total batch, one thread per rank");
  keep("strategies.svg", svg);
  keep("small.svg",
       strategies_svg({example_rows()[0], example_rows()[1], example_rows()[2]}, "Two ranks"));
  EXPECT_TRUE(well_formed(svg));
  EXPECT_EQ(count(svg, "<title>"), 15u);
  for (const char* part : {"1.89x", "2,290", "4 ranks", ">ddp</text>", "final loss", "NDCG@10"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_TRUE(well_formed(strategies_svg({}, "nothing")));
}

TEST(Strategies, FindsMetricsByTheirEnd) {
  EXPECT_EQ(find_metric({{"eval_NDCG@10", 0.5}, {"eval_ndcg@100", 0.6}}, "ndcg@10"), 0.5);
  EXPECT_TRUE(std::isnan(find_metric({{"loss", 1}}, "ndcg@10")));
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

}  // namespace
}  // namespace convoy::report
