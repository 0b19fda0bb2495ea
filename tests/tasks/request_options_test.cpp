#include <fstream>

#include "tests/tasks/recommender_testing.h"

namespace convoy {
namespace {

/// Options of `convoy predict` beside --requests.
class RequestOptions : public RecommenderTest {
 protected:
  Json answered(const std::string& options, const Json& request) {
    write_file(folder_ / "requests", request.dump() + "\n");
    EXPECT_EQ(shell("$convoy predict out --requests " + options + " < requests > answers"), 0)
        << output_;
    std::ifstream file(folder_ / "answers");
    std::string line;
    std::getline(file, line);
    return parse_json(line, "answers");
  }
};

TEST_F(RequestOptions, SayWhetherSeenItemsAreLeftOut) {
  train("--exclude_seen false");
  const Json request{{"items", {raw(3), raw(9)}}, {"top_k", 30}};
  EXPECT_EQ(answered("", request).at("items").size(), 30);
  const auto excluded = answered("--exclude_seen true", request);
  EXPECT_EQ(excluded.at("exclude_seen"), true);
  EXPECT_EQ(excluded.at("items").size(), 28);
  EXPECT_EQ(answered("--exclude_seen false", request).at("items").size(), 30);
  auto own = request;
  own["exclude_seen"] = false;
  EXPECT_EQ(answered("--exclude_seen true", own).at("items").size(), 30);

  train("--exclude_seen true --overwrite_output_dir");
  EXPECT_EQ(answered("", request).at("items").size(), 28);
  EXPECT_EQ(answered("--exclude_seen auto", request).at("items").size(), 28);
  EXPECT_EQ(answered("--exclude_seen false", request).at("items").size(), 30);
}

TEST_F(RequestOptions, AreRefusedOrReportedWhereTheyHaveNoEffect) {
  train();
  for (const std::string option : {"--max_length 3", "--bf16 true", "--top_ks 5"}) {
    EXPECT_EQ(run("predict out --requests " + option), 2) << output_;
    expect(split(option, ' ').front() + " has no effect with --requests");
  }
  ASSERT_EQ(run("predict out --requests --learning_rate 1"), 0) << output_;
  expect("without effect here: --learning_rate");
}

TEST_F(RequestOptions, MetricOptionsHaveNoEffectInPredictions) {
  train();
  ASSERT_EQ(run("predict out --metric_names transformers4rec"), 0) << output_;
  expect("without effect here: --metric_names");
  ASSERT_EQ(run("eval out --metric_names transformers4rec"), 0) << output_;
  EXPECT_EQ(output_.find("without effect"), std::string::npos) << output_;
}

TEST_F(RequestOptions, AnAnswerWithoutItemsSaysWhy) {
  train("--exclude_seen false");
  const Json session = {raw(3), raw(9)};
  const auto note = [&](const Json& request) {
    const auto answer = answered("", request);
    EXPECT_TRUE(answer.at("items").empty()) << answer.dump();
    return answer.value("note", "");
  };
  EXPECT_EQ(note({{"items", session}, {"candidates", {"strange"}}}),
            "the model knows none of the candidates: nothing is recommended");
  const std::string seen = " left out as seen (exclude_seen): nothing is recommended";
  EXPECT_EQ(note({{"items", session}, {"candidates", {raw(9), "no"}}, {"exclude_seen", true}}),
            "all candidates that the model knows are" + seen);
  Json all = Json::array();
  for (int64_t id = 1; id <= 30; ++id) all.push_back(raw(id));
  EXPECT_EQ(note({{"items", all}, {"exclude_seen", true}}), "all items are" + seen);
  EXPECT_FALSE(answered("", {{"items", session}}).contains("note"));
}

}  // namespace
}  // namespace convoy
