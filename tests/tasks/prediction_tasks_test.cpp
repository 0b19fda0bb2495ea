#include <cmath>
#include <fstream>
#include <map>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/data/parquet_files.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/session/recommender.h"
#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

namespace convoy {
namespace {

class PredictionTasks : public CommandTest {
 protected:
  void make_targets() {
    ASSERT_EQ(run("data synthetic --output syn --items 30 --rows 400 --with-targets"), 0)
        << output_;
  }
  std::string command(const std::string& more) const {
    return "train" + kTiny + "--max_steps 150 --learning_rate 0.02 " + "--output_dir out " + more;
  }
};

const std::string kTasks =
    "--prediction_tasks next-item,binary:bought,regression:spent --task_weights 1,2,0.1 "
    "--summary_type mean ";

/// What sessions have one value of is read, too, as the schema names it.
class SessionValues : public PredictionTasks {
 protected:
  void make_values() {
    make_targets();
    const auto file = folder_ / "syn/schema.json";
    auto schema = parse_json(read_file(file), file.string());
    schema["feature"].push_back(
        {{"name", "spent"}, {"type", "FLOAT"}, {"annotation", {{"tag", {"continuous"}}}}});
    schema["feature"].push_back({{"name", "bought"},
                                 {"type", "INT"},
                                 {"intDomain", {{"min", 0}, {"max", 1}, {"isCategorical", true}}},
                                 {"annotation", {{"tag", {"categorical"}}}}});
    write_file(file, schema.dump());
  }
  std::map<std::string, bool> features() const {
    std::map<std::string, bool> out;
    const auto config = json("out/config.json");
    for (const auto& feature : config["features"]) {
      out[feature["name"]] = feature.value("is_list", true);
    }
    return out;
  }
};

TEST_F(SessionValues, AreFeaturesThatPredictionReadsAsTheDataHasThem) {
  make_values();
  ASSERT_EQ(run(command("--stochastic_swap_noise 0.1")), 0) << output_;
  EXPECT_EQ(features(), (std::map<std::string, bool>{
                            {"item_id-list", true}, {"spent", false}, {"bought", false}}));
  ASSERT_EQ(run("predict out --top_k 2 --rows 1 --output told.jsonl"), 0) << output_;
  std::ifstream file(folder_ / "told.jsonl");
  std::string line;
  std::getline(file, line);
  const auto told = parse_json(line, "told.jsonl");
  const tasks::Recommender recommender(folder_ / "out");
  const auto names = prepare::ItemNames::load(folder_ / "out/items.parquet");
  tasks::RecommendationRequest request{.top_k = 2};
  const auto rows = data::testing::read_int_lists(folder_ / "syn/valid.parquet", "item_id-list");
  for (const int64_t id : rows.at(0)) request.items.push_back(names.raw_id(id));
  EXPECT_THROW(recommender.recommend(request), UsageError);
  bool same = false;
  for (const double bought : {0.0, 1.0}) {
    const auto columns = data::ParquetFiles((folder_ / "syn/valid.parquet").string())
                             .read(0, {{"spent", "bought"}, {}})
                             .columns;
    request.features = {{"bought", {bought}}, {"spent", {columns.at("spent").floats.at(0)}}};
    const auto answer = recommender.recommend(request);
    const bool known = static_cast<int64_t>(bought) == columns.at("bought").ints.at(0);
    same |= known && answer.items.at(0).item_id == told.at("item_id").get<std::string>() &&
            std::abs(answer.items.at(0).score - told.at("score").get<float>()) < 1e-4;
  }
  EXPECT_TRUE(same);
  request.features["bought"] = {1, 0};
  EXPECT_THROW(recommender.recommend(request), UsageError);
  const Json written{{"items", request.items}, {"features", {{"bought", 1}, {"spent", 0.5}}}};
  EXPECT_EQ(recommender.recommend(tasks::RecommendationRequest::from_json(written)).items.size(),
            10);
}

TEST_F(SessionValues, PredictedOnesAreNoFeatures) {
  make_values();
  ASSERT_EQ(
      run(command("--max_steps 2 --prediction_tasks next-item,binary:bought --summary_type cls")),
      0)
      << output_;
  EXPECT_EQ(features(), (std::map<std::string, bool>{{"item_id-list", true}, {"spent", false}}));
  ASSERT_EQ(run("eval out"), 0) << output_;
  EXPECT_EQ(run(command("--overwrite_output_dir --prediction_tasks next-item,binary:bought "
                        "--data.features bought")),
            2);
  expect("which model.prediction_tasks asks for");
}

TEST_F(SessionValues, ComeFromALog) {
  std::string events = "user_id,item_id,timestamp,country,bought\n";
  for (int user = 0; user < 60; ++user) {
    const int last = 4 + user / 2 % 4;
    for (int i = 0; i <= last; ++i) {
      const int item = (user / 2 + 5 * i) % 12;
      events += fmt::format("u{},i{},{},{},{}\n", user, item, i, user % 2 ? "at" : "ch",
                            static_cast<int>(i == last && user % 2 == 1));
    }
  }
  write_file(folder_ / "events.csv", events);
  ASSERT_EQ(run("data sessions events.csv --output syn --features country:first,bought:max"), 0)
      << output_;
  ASSERT_EQ(run(command("--prediction_tasks next-item,binary:bought")), 0) << output_;
  EXPECT_EQ(features(), (std::map<std::string, bool>{{"item_id-list", true}, {"country", false}}));
  ASSERT_EQ(run("eval out"), 0) << output_;
  const auto file = folder_ / "out/eval_results.json";
  EXPECT_GT(parse_json(read_file(file), file.string()).at("eval_bought_auc"), 0.9);  // the country
  const tasks::Recommender recommender(folder_ / "out");
  const auto answer = recommender.recommend(tasks::RecommendationRequest::from_json(
      {{"items", {"i1", "i4"}}, {"features", {{"country", "at"}}}}));
  EXPECT_GT(answer.predictions.at("bought"), 0.5);
}

TEST_F(PredictionTasks, AreLearntEvaluatedAndTold) {
  make_targets();
  ASSERT_EQ(run(command(kTasks)), 0) << output_;
  ASSERT_EQ(run("eval out"), 0) << output_;
  const auto file = folder_ / "out/eval_results.json";
  const auto results = parse_json(read_file(file), file.string());
  EXPECT_GT(results.at("eval_bought_auc"), 0.9) << results.dump();
  EXPECT_GT(results.at("eval_bought_accuracy"), 0.8);
  EXPECT_GT(results.at("eval_spent_rmse"), 0.0);
  EXPECT_LT(results.at("eval_spent_rmse"), 2.5);
  EXPECT_TRUE(results.contains("eval_ndcg_at_10"));

  ASSERT_EQ(run("predict out --top_k 1 --output told.jsonl"), 0) << output_;
  const tasks::Recommender recommender(folder_ / "out");
  const auto names = prepare::ItemNames::load(folder_ / "out/items.parquet");
  const auto rows = data::testing::read_int_lists(folder_ / "syn/valid.parquet", "item_id-list");
  std::ifstream told(folder_ / "told.jsonl");
  size_t row = 0;
  for (std::string line; std::getline(told, line); ++row) {
    const auto entry = parse_json(line, "told.jsonl");
    tasks::RecommendationRequest request{.top_k = 1};
    for (const int64_t id : rows.at(row)) request.items.push_back(names.raw_id(id));
    const auto answer = recommender.recommend(request);
    EXPECT_NEAR(answer.predictions.at("bought"), entry.at("bought"), 1e-5);
    EXPECT_NEAR(answer.predictions.at("spent"), entry.at("spent"), 1e-5);
    EXPECT_EQ(answer.to_json().at("predictions").size(), 2);
  }
  EXPECT_EQ(row, rows.size());
  ASSERT_EQ(run("predict out --top_k 1 --output told.csv --rows 1"), 0) << output_;
  EXPECT_TRUE(
      read_file(folder_ / "told.csv").starts_with("row,user_id,rank,item_id,score,bought,spent\n"));
  ASSERT_EQ(run("predict out --top_k 1 --output told.parquet"), 0) << output_;
}

TEST_F(PredictionTasks, SayWhatIsNoAnswer) {
  make_targets();
  const auto expect_refused = [&](const std::string& more, const std::string& text, int code = 2) {
    EXPECT_EQ(run(command(more)), code);
    EXPECT_NE(output_.find(text), std::string::npos) << output_;
  };
  expect_refused("--prediction_tasks next-item,binary:spent", "expected 0 or 1", 1);
  expect_refused("--prediction_tasks next-item,binary:bougth", "did you mean 'bought'", 1);
  expect_refused("--prediction_tasks next-item,binary:item_id-list", "one number a row", 1);
  expect_refused("--prediction_tasks binary:bought", "next-item once");
  expect_refused("--prediction_tasks next-item,bought", "binary:COLUMN or regression:COLUMN");
  expect_refused("--prediction_tasks next-item,binary:bought --task_weights 1", "one for each");
  for (const char* weight : {"nan", "inf", "-1"}) {
    expect_refused(
        std::string("--prediction_tasks next-item,binary:bought --task_weights 1,") + weight,
        "finite numbers of at least 0");
  }
  expect_refused("--summary_type mean", "has no effect where next items alone");
  expect_refused("--label_smoothing_factor 0.1 --sampled_softmax",
                 "smooths the cross_entropy over all items; got sampled_softmax");
}

}  // namespace
}  // namespace convoy
