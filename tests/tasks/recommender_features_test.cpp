#include <cmath>

#include "convoy/base/error.h"
#include "tests/tasks/recommender_testing.h"

// What a recommender is told of beside items.
namespace convoy {
namespace {

TEST_F(RecommenderTest, FeaturesAreAskedFor) {
  ASSERT_EQ(run("data synthetic --output syn --items 30 --rows 60 --with-features"), 0) << output_;
  train();
  const Recommender recommender(folder_ / "out");
  const auto config = json("out/config.json");
  RecommendationRequest request{.items = {raw(3), raw(9)}};
  EXPECT_THROW(recommender.recommend(request), UsageError);
  for (const auto& feature : config["features"]) {
    if (feature["name"] != config["item_feature"]) request.features[feature["name"]] = {1, 2};
  }
  EXPECT_EQ(recommender.recommend(request).items.size(), 10);
  auto wrong = request;
  wrong.features.begin()->second = {1};
  EXPECT_THROW(recommender.recommend(wrong), UsageError);
  wrong = request;
  wrong.features["prise-list"] = {1, 2};
  try {
    recommender.recommend(wrong);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'price-list'?"), std::string::npos)
        << error.what();
  }
}

TEST_F(RecommenderTest, CategoriesAreGivenAsInTheInteractions) {
  std::string events = "user_id,item_id,timestamp,kind,price\n";
  for (int user = 0; user < 30; ++user) {
    for (int i = 0; i < 6; ++i) {
      const int item = (user + 3 * i) % 12;
      events +=
          fmt::format("u{},i{},{},{},{}\n", user, item, i, item % 3 == 0 ? "hat" : "shoe", item);
    }
  }
  write_file(folder_ / "events.csv", events);
  ASSERT_EQ(run("data sessions events.csv --output syn --features kind,price"), 0) << output_;
  train();
  ASSERT_TRUE(fs::exists(folder_ / "out/kind.parquet"));
  const Recommender recommender(folder_ / "out");
  const auto kinds = prepare::ItemNames::load(folder_ / "syn/kind.parquet");
  const double hat = kinds.raw_id(1) == "hat" ? 1 : 2;
  const RecommendationRequest by_id{
      .items = {"i3", "i4"}, .features = {{"kind-list", {hat, 3 - hat}}, {"price-list", {3, 4}}}};
  const Json line{{"items", {"i3", "i4"}},
                  {"features", {{"kind-list", {"hat", "shoe"}}, {"price-list", {3, 4}}}}};
  const auto by_name = RecommendationRequest::from_json(line);
  EXPECT_EQ(by_name.categories.at("kind-list"), (std::vector<std::string>{"hat", "shoe"}));
  EXPECT_EQ(recommender.recommend(by_id).to_json(), recommender.recommend(by_name).to_json());
  auto unknown = by_name;
  unknown.categories["kind-list"] = {"hat", "glove"};
  auto none = by_id;
  none.features["kind-list"] = {hat, 0};
  const auto answer = recommender.recommend(unknown);
  EXPECT_EQ(answer.unknown, std::vector<std::string>{"kind-list: glove"});
  EXPECT_EQ(answer.items[0].score, recommender.recommend(none).items[0].score);
  auto wrong = by_name;
  wrong.categories["price-list"] = {"cheap", "dear"};
  EXPECT_THROW(recommender.recommend(wrong), UsageError);
  // Checkpoints have them, too.
  EXPECT_NO_THROW(Recommender(folder_ / "out/checkpoint-15").recommend(by_name));
}

TEST_F(RecommenderTest, CategoriesThatAreNumbersAreRawValues) {
  std::string events = "user_id,item_id,timestamp,shop\n";
  for (int user = 0; user < 30; ++user) {
    for (int i = 0; i < 6; ++i) {
      const int item = (user + 3 * i) % 12;
      events += fmt::format("u{},i{},{},{}\n", user, item, i, item % 3 == 0 ? 1 : 30);
    }
  }
  write_file(folder_ / "events.csv", events);
  ASSERT_EQ(run("data sessions events.csv --output syn --features shop:categorical"), 0) << output_;
  train();
  const Recommender recommender(folder_ / "out");
  const auto answer = [&](const Json& shops) {
    const Json line{{"items", {"i3", "i4"}}, {"features", {{"shop-list", shops}}}};
    return recommender.recommend(RecommendationRequest::from_json(line));
  };
  EXPECT_EQ(answer({1, 30}).to_json(), answer({"1", "30"}).to_json());
  EXPECT_NE(answer({30, 1}).to_json(), answer({1, 30}).to_json());
  EXPECT_EQ(answer({1, 2}).unknown, std::vector<std::string>{"shop-list: 2"});
}

TEST_F(RecommenderTest, NumbersAreGivenAsInTheInteractions) {
  const auto write = [&](const std::string& name, bool scaled) {
    std::string events = "user_id,item_id,timestamp,price,spent\n";
    for (int user = 0; user < 30; ++user) {
      for (int i = 0; i < 6; ++i) {
        const int item = (user + 3 * i) % 12;
        const double price = 10 * item;
        events += fmt::format("u{},i{},{},{},{}\n", user, item, i,
                              scaled ? std::log1p(price / 100) : price, user);
      }
    }
    write_file(folder_ / name, events);
  };
  write("raw.csv", false);
  write("scaled.csv", true);
  ASSERT_EQ(run("data sessions raw.csv --output syn --features price:/100:log1p,spent:sum:*0.5"), 0)
      << output_;
  EXPECT_EQ(json("syn/scales.json"),
            Json::parse(R"({"price-list": ["/100", "log1p"], "spent": ["*0.5"]})"));
  train();
  const Recommender recommender(folder_ / "out");
  const RecommendationRequest raw{.items = {"i3", "i4"},
                                  .features = {{"price-list", {30, 40}}, {"spent", {12}}}};
  // The same model without scales is given the numbers that the columns hold.
  fs::copy(folder_ / "out", folder_ / "plain", fs::copy_options::recursive);
  fs::remove(folder_ / "plain/scales.json");
  RecommendationRequest as_stored = raw;
  as_stored.features = {{"price-list", {float(std::log1p(.3)), float(std::log1p(.4))}},
                        {"spent", {6}}};
  const auto answer = recommender.recommend(raw).to_json();
  EXPECT_EQ(answer, Recommender(folder_ / "plain").recommend(as_stored).to_json());
  EXPECT_NE(answer, recommender.recommend(as_stored).to_json());
  EXPECT_EQ(answer, Recommender(folder_ / "out/checkpoint-15/..").recommend(raw).to_json());
  EXPECT_NO_THROW(Recommender(folder_ / "out/checkpoint-15").recommend(raw));
  auto wrong = raw;
  wrong.features["price-list"] = {30, -200};
  EXPECT_THROW(recommender.recommend(wrong), UsageError);

  // Other scales under the same weights are refused, at preparing and at training.
  EXPECT_EQ(run("data sessions raw.csv --output later --ids-from syn --features price,spent:sum"),
            2);
  expect("the feature price-list has no scale, and in");
  expect("the scale /100:log1p");
  ASSERT_EQ(run("data sessions raw.csv --output later --features price,spent:sum:*0.5"), 0)
      << output_;
  EXPECT_FALSE(fs::exists(folder_ / "later/price.parquet"));
  EXPECT_EQ(run("train" + kTiny + "--data.path later --model_name_or_path out --output_dir next"),
            2);
  expect("the feature price-list has no scale, and in");
  ASSERT_EQ(run("data sessions raw.csv --output less --features spent:sum:*0.5"), 0) << output_;
  EXPECT_EQ(run("eval out --data less"), 1);
  expect("column 'price-list' is missing in less/valid.parquet");
  ASSERT_EQ(run("data sessions scaled.csv --output syn --features price,spent"), 0) << output_;
  EXPECT_FALSE(fs::exists(folder_ / "syn/scales.json")) << "of an earlier run";
}

}  // namespace
}  // namespace convoy
