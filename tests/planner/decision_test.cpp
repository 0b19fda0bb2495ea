#include "convoy/planner/search/decision.h"

#include <gtest/gtest.h>

#include "tests/planner/testing.h"

namespace convoy::planner {
namespace {

std::string told(const PaperModel& model, const Cluster& cluster) {
  const auto numbers = model.numbers();
  const SearchSpace space{.num_ranks = cluster.num_devices(), .global_batch = 64};
  std::string out;
  for (const auto& line : decision(numbers, cluster, space, search(numbers, cluster, space))) {
    out += line + "\n";
  }
  return out;
}

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

TEST(Decision, AnswersTheGuidesQuestions) {
  const PaperModel model;
  const auto fits = told(model, paper_cluster(1, 4, 10 * kGiga, 100 * kGiga, 0));
  EXPECT_TRUE(has(fits, "fits into the")) << fits;
  EXPECT_TRUE(has(fits, "links inside the host are fast")) << fits;
  EXPECT_TRUE(has(fits, "So: 4 data")) << fits;
  const auto slow = told(model, paper_cluster(4, 1, 10 * kGiga, 100 * kGiga, 1e6));
  EXPECT_TRUE(has(slow, "links between hosts are slow")) << slow;
  EXPECT_TRUE(has(slow, "Stages 2 and 3 of ZeRO are not tried with a pipeline")) << slow;
  const auto none = told(model, paper_cluster(1, 1, 0.01 * kGiga, 0, 0));
  EXPECT_TRUE(has(none, "more than a device has room for")) << none;
  EXPECT_TRUE(has(none, "Nothing fits")) << none;
}

TEST(Decision, TellsOfALayerThatIsTooLarge) {
  PaperModel model;
  model.layers = 2;
  model.width = 2048;
  model.vocabulary = 1000;
  const double layer = 16 * 12.0 * static_cast<double>(model.width * model.width);
  const auto text = told(model, paper_cluster(1, 4, layer * 0.8, 100 * kGiga, 0));
  EXPECT_TRUE(has(text, "no stage of a pipeline can hold it")) << text;
}

TEST(Decision, EachLoserHasItsReason) {
  PaperModel model;
  model.layers = 16;
  const auto numbers = model.numbers();
  const auto cluster = paper_cluster(1, 4, 10 * model.weights(), 100 * kGiga, 0);
  const auto found = search(numbers, cluster, {.num_ranks = 4, .global_batch = 16});
  ASSERT_NE(found.best(), nullptr);
  EXPECT_TRUE(has(verdict(*found.best(), found.best()), "fastest"));
  bool is_short = false, waits = false;
  for (const auto* planned : found.of_families()) {
    const auto reason = verdict(*planned, found.best());
    is_short = is_short || has(reason, "short");
    waits = waits || has(reason, "bubble") || has(reason, "longer") || has(reason, "communication");
  }
  EXPECT_TRUE(is_short);
  EXPECT_TRUE(waits);
}

TEST(Decision, TellsHowMuchLongerALoserComputes) {
  const Candidate best{{}, {.seconds = 1, .computing = 1}};
  const auto loser = [&](double seconds) {
    return verdict({{}, {.seconds = seconds, .computing = seconds}}, &best);
  };
  EXPECT_EQ(loser(1), "as fast, but less simple");
  EXPECT_EQ(loser(1.004), "less than 1 % slower");
  EXPECT_EQ(loser(1.25), "computes 25 % longer");
  EXPECT_EQ(loser(33), "computes 33 times as long");
}

TEST(Decision, TimesOfStepsHaveThreeDigits) {
  EXPECT_EQ(step_text(4.2e-6), "4.20 us");
  EXPECT_EQ(step_text(0.014), "14.0 ms");
  EXPECT_EQ(step_text(0.00325), "3.25 ms");
  EXPECT_EQ(step_text(0.9996), "1000 ms");
  EXPECT_EQ(step_text(1.1), "1.10 s");
  EXPECT_EQ(step_text(1234.5), "1234 s");
}

}  // namespace
}  // namespace convoy::planner
