#include "convoy/bench/strategies_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/report/svg_testing.h"

namespace convoy::bench {
namespace {

using report::count;
using report::keep;
using report::well_formed;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<StrategyRow> example_rows() {
  std::vector<StrategyRow> rows;
  const auto add = [&](const char* name, int ranks, double rate, double loss, double ndcg) {
    StrategyRow row{
        .strategy = name, .ranks = ranks, .seconds = 100000 / rate, .samples_per_second = rate};
    row.collectives_per_step = ranks > 1 ? 3 : 0;
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
  for (const char* part :
       {"| strategy |", "threads per rank", "collectives/step", "peak memory/rank", "1.89x", "95%",
        "2,290", "6.1234", "0.0512", "0.0973", "480.0 MiB"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  auto rows = example_rows();
  rows[1].device_memory_bytes_per_rank = int64_t{3} << 30;
  EXPECT_NE(strategies_table(rows).to_text().find("480.0 MiB, GPU 3.00 GiB"), std::string::npos);
  EXPECT_EQ(strategies_json(rows)[1]["device_memory_bytes_per_rank"], int64_t{3} << 30);
  StrategyRow unknown{.strategy = "x"};
  EXPECT_NE(strategies_table({unknown}).to_text().find(" - "), std::string::npos);
}

TEST(Strategies, FailedRowIsMarkedAndIsNoBaseline) {
  auto rows = example_rows();
  rows[0].failure = "exit code 1";
  fill_speedups(rows);
  EXPECT_DOUBLE_EQ(rows[1].speedup, 1) << "of those that trained the first";
  EXPECT_NE(strategies_table(rows).to_markdown().find("failed"), std::string::npos);
  const auto json = strategies_json(rows);
  EXPECT_EQ(json[0]["failure"], "exit code 1");
  EXPECT_TRUE(json[0]["samples_per_second"].is_null());
  EXPECT_FALSE(json[1].contains("failure"));
  EXPECT_EQ(strategies_svg(rows, "title").find("single"), std::string::npos);
}

TEST(Strategies, PipelinesSayTheirMicroBatches) {
  auto rows = example_rows();
  EXPECT_EQ(strategies_table(rows).to_markdown().find("micro-batches"), std::string::npos);
  for (const int64_t chunks : {4, 8}) {
    rows.push_back({.strategy = "gpipe", .ranks = 2, .micro_batches = chunks});
  }
  const auto text = strategies_table(rows).to_text(), picture = strategies_svg(rows, "pipelines");
  EXPECT_NE(text.find("gpipe                 8      2"), std::string::npos) << text;
  EXPECT_EQ(strategies_json(rows)[6]["micro_batches"], 8);
  for (const char* part : {">gpipe, M = 4<", ">gpipe, M = 8<"}) {
    EXPECT_NE(picture.find(part), std::string::npos) << part;
  }
}

TEST(Strategies, LearningRatesAreComparedEachWithItsOwnSingleDevice) {
  auto rows = example_rows();
  EXPECT_EQ(strategies_table(rows).to_markdown().find("learning rate"), std::string::npos);
  auto faster = rows;
  for (auto& row : rows) row.learning_rate = 5e-4;
  for (auto& row : faster) {
    row.learning_rate = 1e-3;
    row.samples_per_second *= 2;
    row.eval_seconds = 3.5;
  }
  rows.insert(rows.end(), faster.begin(), faster.end());
  fill_speedups(rows);
  for (size_t i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(rows[i].speedup, rows[i + 5].speedup) << i;
  const auto text = strategies_table(rows).to_markdown();
  for (const char* part : {"learning rate", " 0.0005 |", " 0.001 |", "evaluation", "3.50 s"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  const auto json = strategies_json(rows);
  EXPECT_TRUE(json[0]["eval_seconds"].is_null());
  EXPECT_EQ(json[9]["eval_seconds"], 3.5);
  EXPECT_EQ(json[9]["learning_rate"], 1e-3);
  const auto picture = strategies_svg(rows, "rates");
  for (const char* part : {">ddp, 0.0005<", ">ddp, 0.001<"}) {
    EXPECT_NE(picture.find(part), std::string::npos) << part;
  }
}

TEST(Strategies, JsonHasExactlyTheAgreedKeys) {
  auto rows = example_rows();
  rows[0].loss = kNan;
  const Json json = parse_json(strategies_json(rows).dump(), "test");
  ASSERT_EQ(json.size(), 5u);
  std::set<std::string> keys;
  for (const auto& [key, value] : json[0].items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{
                      "strategy", "ranks", "threads", "seconds", "samples_per_second", "speedup",
                      "efficiency", "collectives_per_step", "bytes_per_step",
                      "peak_memory_bytes_per_rank", "eval_seconds", "loss", "metrics"}));
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
  EXPECT_EQ(find_metric({{"popularity_baseline_recall@10", 0.1}, {"recall@10", 0.5}}, "recall@10"),
            0.5);
}

}  // namespace
}  // namespace convoy::bench
