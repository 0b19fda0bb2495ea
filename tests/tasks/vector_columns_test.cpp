#include <cmath>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/session/recommender.h"
#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

// Session data with vectors: a picture of each item, and the taste of each session.
namespace convoy {
namespace {

namespace pq = data::testing;
using Floats = std::vector<float>;

class VectorColumnsTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions(100);
    for (const char* file : {"train", "valid"}) write(file);
    auto schema = json("syn/schema.json");
    for (const char* name : {"picture", "taste"}) {
      schema["feature"].push_back(
          {{"name", name}, {"type", "FLOAT"}, {"annotation", {{"tag", {"embedding"}}}}});
    }
    write_file(folder_ / "syn/schema.json", schema.dump());
  }

  static Floats picture(int64_t id, int64_t width = 3) {
    Floats out;
    for (int64_t i = 0; i < width; ++i) {
      out.push_back(std::sin(static_cast<float>(id * (i + 1))));
    }
    return out;
  }
  static Floats taste(const std::vector<int64_t>& ids) {
    return {static_cast<float>(ids.front() % 5), static_cast<float>(ids.front() % 3)};
  }

  /// The file with both columns behind its items; `width`: of the last picture.
  void write(const std::string& name, int64_t width = 3, int64_t fewer = 0) {
    const auto path = folder_ / "syn" / (name + ".parquet");
    const auto items = pq::read_int_lists(path, "item_id-list");
    std::vector<std::vector<Floats>> pictures;
    std::vector<Floats> tastes;
    for (const auto& ids : items) {
      pictures.emplace_back();
      for (const int64_t id : ids) pictures.back().push_back(picture(id));
      tastes.push_back(taste(ids));
    }
    pictures.back().back() = picture(items.back().back(), width);
    pictures.back().resize(pictures.back().size() - static_cast<size_t>(fewer));
    pq::write_parquet(path,
                      {{"item_id-list", pq::int_lists(items)},
                       {"picture", pq::vector_lists(pictures)},
                       {"taste", pq::float_lists(tastes)}},
                      25);
  }

  int train(const std::string& more) {
    return run("train" + kTiny + "--overwrite_output_dir --output_dir out --max_steps 6 " + more);
  }

  void expect_refused(const std::string& part) {
    EXPECT_NE(train(""), 0) << output_;
    expect(part);
    EXPECT_FALSE(fs::exists(folder_ / "out/model.safetensors"));
  }
};

TEST_F(VectorColumnsTest, TrainToTheSameBitsInEveryLayout) {
  std::string alone;
  for (const char* layout : {"--gradient_accumulation_steps 2", "--strategy dp --replicas 2",
                             "--nproc 2", "--zero 3 --nproc 2"}) {
    ASSERT_EQ(train(layout), 0) << layout << output_;
    const auto weights = read_file(folder_ / "out/model.safetensors");
    if (alone.empty()) alone = weights;
    EXPECT_TRUE(weights == alone) << layout;
  }
  const auto features = json("out/config.json")["features"];
  ASSERT_EQ(features.size(), 3);
  for (const auto& feature : features) {
    const auto width = feature["name"] == "picture" ? 3 : feature["name"] == "taste" ? 2 : 0;
    EXPECT_EQ(feature.value("width", 0), width);
    EXPECT_EQ(feature.value("is_list", true), feature["name"] != "taste");
  }
}

TEST_F(VectorColumnsTest, ARequestIsAnsweredAsARowOfTheDataIs) {
  for (const char* body : {"gpt2", "bert --embedding_dims '{\"picture\": 5}'"}) {
    ASSERT_EQ(train(fmt::format("--learning_rate 0.02 --model.body {}", body)), 0) << output_;
    ASSERT_EQ(run("predict out --top_k 4 --output told.jsonl"), 0) << output_;
    std::ifstream file(folder_ / "told.jsonl");
    const tasks::Recommender recommender(folder_ / "out");
    const auto names = prepare::ItemNames::load(folder_ / "out/items.parquet");
    for (const auto& ids : pq::read_int_lists(folder_ / "syn/valid.parquet", "item_id-list")) {
      Json request{{"top_k", 4}, {"features", {{"taste", taste(ids)}}}};
      for (const int64_t id : ids) {
        request["items"].push_back(names.raw_id(id));
        request["features"]["picture"].push_back(picture(id));
      }
      const auto answer = recommender.recommend(tasks::RecommendationRequest::from_json(request));
      ASSERT_EQ(answer.items.size(), 4);
      for (const auto& item : answer.items) {
        std::string line;
        ASSERT_TRUE(std::getline(file, line));
        const auto told = parse_json(line, "told.jsonl");
        EXPECT_EQ(item.item_id, told["item_id"]);
        EXPECT_NEAR(item.score, told["score"].get<double>(), 1e-4);
      }
      request["features"]["taste"][1] = 9;
      EXPECT_NE(recommender.recommend(tasks::RecommendationRequest::from_json(request))
                    .items.front()
                    .score,
                answer.items.front().score);
    }
    tasks::RecommendationRequest request{.items = {names.raw_id(3), names.raw_id(4)}};
    request.features = {{"picture", {1, 2, 3, 4, 5}}, {"taste", {1, 2}}};
    EXPECT_MESSAGE(recommender.recommend(request),
                   "5 values of feature 'picture' for 2 items; expected one for each, a vector of "
                   "3 numbers");
    request.features = {{"picture", {1, 2, 3, 4, 5, 6}}};
    EXPECT_MESSAGE(recommender.recommend(request), "lacks the feature 'taste'");
  }
  const Json uneven{{"items", {"1", "2"}}, {"features", {{"picture", {{1, 2, 3}, {1, 2}}}}}};
  EXPECT_MESSAGE(tasks::RecommendationRequest::from_json(uneven),
                 "vectors of 3 numbers and of 2 in one list");
}

TEST_F(VectorColumnsTest, RefusesVectorsThatDoNotFitBeforeTraining) {
  write("train", 4);
  expect_refused("row 99 of syn/train.parquet holds a vector of 4 numbers; expected 3");
  write("train", 3, 1);
  expect_refused("11 in 'picture'; expected lists of equal length");
  write("train");
  write("valid", 2);
  expect_refused("valid.parquet holds a vector of 2 numbers; expected 3");
  pq::write_parquet(folder_ / "syn/valid.parquet", {{"item_id-list", pq::int_lists({{1, 2}})},
                                                    {"picture", pq::float_lists({{1, 2, 3}})},
                                                    {"taste", pq::float_lists({{1, 2}})}});
  expect_refused("vectors, one a row; the model was made for one for each item");
  pq::write_parquet(folder_ / "syn/valid.parquet", {{"item_id-list", pq::int_lists({{1, 2}})},
                                                    {"taste", pq::float_lists({{1, 2}})}});
  expect_refused("column 'picture' is missing in");
  pq::write_parquet(folder_ / "syn/train.parquet", {{"item_id-list", pq::int_lists({{1, 2}})},
                                                    {"picture", pq::int_lists({{1, 2}})},
                                                    {"taste", pq::float_lists({{1, 2}})}});
  expect_refused("expected vectors: a list of fractions a row, or a list of such lists");
  make_sessions(100);
  write("train");
  write("valid");
  auto schema = json("syn/schema.json");
  schema["feature"].push_back({{"name", "taste"},
                               {"type", "FLOAT"},
                               {"valueCount", {{"min", "4"}, {"max", "4"}}},
                               {"annotation", {{"tag", {"embedding"}}}}});
  write_file(folder_ / "syn/schema.json", schema.dump());
  expect_refused("has vectors of 2 numbers; the schema's valueCount says 4");
}

}  // namespace
}  // namespace convoy
