#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "convoy/base/error.h"
#include "tests/tasks/recommender_testing.h"

// Keys of requests beside items, and answers without a session.
namespace convoy {
namespace {

using testing::HasSubstr;

class Serving : public RecommenderTest {
 protected:
  std::vector<Json> answers_to(const std::string& lines, const std::string& options = "") {
    write_file(folder_ / "requests", lines);
    EXPECT_EQ(shell("$convoy predict out --requests " + options + " < requests > answers"), 0)
        << output_;
    std::vector<Json> out;
    std::ifstream file(folder_ / "answers");
    for (std::string line; std::getline(file, line);) out.push_back(parse_json(line, "answers"));
    return out;
  }

  static std::vector<std::string> ids_of(const tasks::RecommendationAnswer& answer) {
    std::vector<std::string> out;
    for (const auto& item : answer.items) out.push_back(item.item_id);
    return out;
  }

  static std::map<std::string, float> scores_of(const tasks::RecommendationAnswer& answer) {
    std::map<std::string, float> out;
    for (const auto& item : answer.items) out[item.item_id] = item.score;
    return out;
  }
};

TEST_F(Serving, ExcludedItemsAreNotRecommended) {
  train("--exclude_seen false");
  const Recommender recommender(folder_ / "out");
  const RecommendationRequest plain{.items = {raw(3), raw(9)}, .top_k = 30};
  const auto all = ids_of(recommender.recommend(plain));
  ASSERT_EQ(all.size(), 30U);
  auto without = plain;
  without.exclude = {all[0], all[4], "nobody"};
  auto expected = all;
  expected.erase(expected.begin() + 4);
  expected.erase(expected.begin());
  const auto answer = recommender.recommend(without);
  EXPECT_EQ(ids_of(answer), expected);
  EXPECT_TRUE(answer.unknown.empty()) << "an unknown excluded item is none to tell of";

  auto all_of = without;
  all_of.candidates = {all[0], all[1], all[2], raw(3)};
  all_of.exclude_seen = true;
  auto left = all_of.candidates;
  std::erase_if(left, [&](const auto& id) { return id == all[0] || id == raw(3) || id == raw(9); });
  auto found = ids_of(recommender.recommend(all_of));
  std::ranges::sort(found);
  std::ranges::sort(left);
  EXPECT_EQ(found, left);

  without.exclude = all;
  EXPECT_EQ(recommender.recommend(without).note,
            "all items are left out by \"exclude\": nothing is recommended");
  without.exclude_seen = true;
  EXPECT_EQ(recommender.recommend(without).note,
            "all items are left out as seen (exclude_seen) or by \"exclude\": nothing is "
            "recommended");
  without.candidates = {all[1]};
  without.exclude_seen = false;
  EXPECT_EQ(recommender.recommend(without).note,
            "all candidates that the model knows are left out by \"exclude\": nothing is "
            "recommended");
}

TEST_F(Serving, CandidatesHaveTheScoresThatTheyHaveAmongAll) {
  train("--d_model 16 --n_head 2");
  const Recommender recommender(folder_ / "out");
  for (auto request : requests(30)) {
    request.exclude_seen = false;
    const auto all = scores_of(recommender.recommend(request));
    request.candidates = {raw(7), raw(12), raw(7), raw(30)};
    const auto some = scores_of(recommender.recommend(request));
    ASSERT_EQ(some.size(), 3U);
    for (const auto& [id, score] : some) EXPECT_NEAR(score, all.at(id), 1e-6);
  }
}

TEST_F(Serving, PopularItemsStandInWhereNothingIsKnown) {
  train("--exclude_seen false");
  const auto counts = json("out/item_counts.json").at("counts").get<std::vector<int64_t>>();
  const Recommender recommender(folder_ / "out");
  const auto answer = recommender.recommend({.items = {"nobody"}, .top_k = 5});
  EXPECT_TRUE(answer.popular);
  EXPECT_EQ(answer.unknown, std::vector<std::string>{"nobody"});
  EXPECT_EQ(answer.note,
            "the session has no item that the model knows: these are the most popular items");
  ASSERT_EQ(answer.items.size(), 5U);
  auto sorted = counts;
  std::ranges::sort(sorted, std::ranges::greater());
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(answer.items[i].score, static_cast<float>(sorted[i])) << "its count";
  }
  const auto names = ids_of(answer);
  EXPECT_EQ(ids_of(recommender.recommend({.top_k = 4, .exclude = {names[0]}})),
            (std::vector<std::string>{names[1], names[2], names[3], names[4]}));
  EXPECT_EQ(ids_of(recommender.recommend(
                {.top_k = 4, .candidates = {names[3], names[1], "no"}, .exclude = {names[2]}})),
            (std::vector<std::string>{names[1], names[3]}));
  const auto nothing = recommender.recommend({.candidates = {names[3]}, .exclude = {names[3]}});
  EXPECT_FALSE(nothing.popular);
  EXPECT_EQ(nothing.note,
            "the request has no items, and no popular item is left: nothing is recommended");
  EXPECT_EQ(recommender.recommend(RecommendationRequest{.popular = false}).note,
            "the request has no items: nothing is recommended");
  const auto known = recommender.recommend({.items = {raw(3)}});
  EXPECT_FALSE(known.popular);
  EXPECT_FALSE(known.to_json().contains("popular"));

  // A run of before there were counts.
  fs::remove(folder_ / "out/item_counts.json");
  EXPECT_EQ(Recommender(folder_ / "out").recommend(RecommendationRequest{}).note,
            "the request has no items: nothing is recommended");
}

TEST_F(Serving, VectorOfASessionTimesThoseOfItemsIsTheirScores) {
  for (const char* body : {"gpt2", "gpt2 --weight_tying false --temperature 0.5",
                           "bert --item_embedding_dim 4", "electra --masking rtd"}) {
    train(fmt::format("--overwrite_output_dir --model.body {}", body));
    const Recommender recommender(folder_ / "out");
    const auto items = recommender.item_vectors();
    auto request = requests(30).front();
    request.exclude_seen = false;
    EXPECT_TRUE(recommender.recommend(request).vector.empty());
    request.vector = true;
    const auto answer = recommender.recommend(request);
    const auto width = items.vectors.size(1);
    ASSERT_EQ(std::ssize(answer.vector), width);
    ASSERT_EQ(answer.items.size(), items.item_ids.size());
    const auto scores = scores_of(answer);
    for (size_t i = 0; i < items.item_ids.size(); ++i) {
      const auto* vector = items.vectors.const_data_ptr<float>() + static_cast<int64_t>(i) * width;
      double product = 0;
      for (size_t j = 0; j < answer.vector.size(); ++j) product += vector[j] * answer.vector[j];
      EXPECT_NEAR(product, scores.at(items.item_ids[i]), 1e-5) << body;
    }
    request.top_k = 0;
    const auto alone = recommender.recommend(request);
    EXPECT_TRUE(alone.items.empty());
    EXPECT_EQ(alone.note, "");
    EXPECT_EQ(alone.vector, answer.vector);
    request.items = {"nobody"};
    EXPECT_EQ(recommender.recommend(request).note,
              "the session has no item that the model knows: there is no vector of it");
  }
}

TEST_F(Serving, ARequestThatFailsSpoilsNoOther) {
  train();
  const Recommender recommender(folder_ / "out");
  const RecommendationRequest good{.items = {raw(3)}, .top_k = 2},
      bad{.items = {raw(3)}, .top_k = 0};
  const auto outcomes = recommender.recommend_each({good, bad, good});
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[0].answer.items.size(), 2U);
  EXPECT_THROW(std::rethrow_exception(outcomes[1].error), UsageError);
  EXPECT_EQ(outcomes[2].answer.to_json(), outcomes[0].answer.to_json());
  EXPECT_THROW(recommender.recommend(std::vector{good, bad}), UsageError);
}

TEST_F(Serving, ManyRequestsAtOnceHaveTheAnswersOfEach) {
  train();
  const Recommender recommender(folder_ / "out");
  std::vector<RecommendationRequest> asked;
  while (asked.size() < 300) {  // more than the model reads as one batch
    for (auto& request : requests(3)) asked.push_back(request);
  }
  const auto together = recommender.recommend(asked);
  for (size_t i = 0; i < asked.size(); i += 37) {
    const auto alone = recommender.recommend(asked[i]);
    ASSERT_EQ(ids_of(together[i]), ids_of(alone));
    for (size_t j = 0; j < alone.items.size(); ++j) {
      EXPECT_NEAR(together[i].items[j].score, alone.items[j].score, 1e-6);
    }
  }
}

TEST_F(Serving, LinesAndListsAreAnsweredInTheirOrderWithTheirIds) {
  train();
  std::string lines;
  for (int i = 0; i < 150; ++i) {  // more than are read at once
    lines += Json{{"items", {raw(1 + i % 30)}}, {"top_k", 2}, {"id", i}}.dump() + "\n";
  }
  lines += Json::array({{{"items", {raw(3)}}, {"id", {{"page", "x"}}}},
                        {{"items", {raw(3)}}, {"id", "bad"}, {"top_k", -1}},
                        {{"items", {raw(3)}}}})
               .dump() +
           "\n[]\n{\"items\": [\"a\"], \"tops\": 1, \"id\": null}\n[1]\n"
           "{\"load\": \"out/checkpoint-15\", \"id\": 9}\n";
  const auto answers = answers_to(lines);
  ASSERT_EQ(answers.size(), 155U);
  const Recommender recommender(folder_ / "out");
  for (int i = 0; i < 150; ++i) {
    const auto& answer = answers[static_cast<size_t>(i)];
    EXPECT_EQ(answer.at("id"), i);
    const auto alone = recommender.recommend({.items = {raw(1 + i % 30)}, .top_k = 2});
    ASSERT_EQ(answer.at("items").size(), 2U);
    EXPECT_EQ(answer.at("items")[0].at("item_id"), alone.items[0].item_id);
  }
  const auto& list = answers[150];
  ASSERT_TRUE(list.is_array());
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].at("id"), Json::parse(R"({"page": "x"})"));
  EXPECT_EQ(list[1].at("id"), "bad");
  EXPECT_THAT(list[1].at("error").get<std::string>(), HasSubstr("top_k = -1"));
  EXPECT_EQ(list[0].at("items"), list[2].at("items"));
  EXPECT_EQ(answers[151], Json::array());
  EXPECT_TRUE(answers[152].contains("error"));
  EXPECT_TRUE(answers[152].contains("id"));
  EXPECT_TRUE(answers[153][0].contains("error"));
  EXPECT_EQ(answers[154], Json::parse(R"({"loaded": "out/checkpoint-15", "id": 9})"));
}

TEST_F(Serving, ALineIsAnsweredWhileTheNextOneIsNotThere) {
  train();
  write_file(folder_ / "request", Json{{"items", {raw(3)}}}.dump() + "\n");
  ASSERT_EQ(shell("mkfifo pipe; $convoy predict out --requests < pipe > answers & exec 3> pipe; "
                  "cat request >&3; tries=0; "
                  "while [ ! -s answers ] && [ $tries -lt 300 ]; do sleep 0.1; "
                  "tries=$((tries + 1)); done; wc -l < answers; exec 3>&-; wait"),
            0)
      << output_;
  EXPECT_EQ(trim(output_), "1") << "before the pipe was closed";
}

TEST_F(Serving, KeysOfTheWrongKindAreNamed) {
  train();
  const auto error = [&](const char* key, const Json& value) {
    Json request{{"items", {raw(3)}}, {key, value}};
    return answers_to(request.dump() + "\n").front().at("error").get<std::string>();
  };
  EXPECT_THAT(error("exclude", "a"), HasSubstr("\"exclude\" is \"a\"; expected a list of ids"));
  EXPECT_THAT(error("vector", 1), HasSubstr("\"vector\" is 1; expected true or false"));
  EXPECT_THAT(error("popular", "no"), HasSubstr("\"popular\" is \"no\"; expected true or false"));
}

}  // namespace
}  // namespace convoy
