#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "convoy/trials/halving.h"
#include "convoy/trials/table.h"

namespace convoy::trials {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::pair<int64_t, int>> rounds(int64_t trials, int64_t number, int64_t reduction) {
  std::vector<std::pair<int64_t, int>> out;
  for (const auto& rung : rungs(trials, number, reduction)) {
    out.emplace_back(rung.trials, static_cast<int>(1000 * rung.share));
  }
  return out;
}

Search search_of(int64_t trials, int64_t rounds) {
  Search out;
  for (int64_t i = 0; i < trials; ++i) out.trials.push_back({{{"n", std::to_string(i)}}});
  out.rungs = rungs(trials, rounds, 3);
  return out;
}

/// Runs a search whose trial i has the value of `values` at i in all rounds; -1 fails in the
/// second.
std::vector<std::pair<size_t, size_t>> run_all(Search& search, const std::vector<double>& values,
                                               int64_t jobs = 1, int64_t most = 1000) {
  std::vector<std::pair<size_t, size_t>> done;
  std::atomic<int64_t> left{most};
  const auto all = [&] {
    run(search, jobs,
        {.run = [&](size_t trial, size_t rung) -> Outcome {
           if (left-- == 0) throw std::runtime_error("interrupted");
           if (values[trial] == -1 && rung == 1) return {.score = {}, .failure = "broken"};
           return {.score = {.value = values[trial], .seconds = 1}};
         },
         .done = [&](size_t trial, size_t rung) { done.emplace_back(rung, trial); }});
  };
  if (most == 1000) {
    all();
  } else {
    EXPECT_THROW(all(), std::runtime_error);
  }
  return done;
}

TEST(Halving, TrainsTheBestThirdThreeTimesAsLong) {
  using Rounds = std::vector<std::pair<int64_t, int>>;
  EXPECT_EQ(rounds(20, 3, 3), (Rounds{{20, 111}, {7, 333}, {3, 1000}}));
  EXPECT_EQ(rounds(4, 5, 2), (Rounds{{4, 250}, {2, 500}, {1, 1000}}));
  EXPECT_EQ(rounds(1, 3, 3), (Rounds{{1, 1000}}));
  EXPECT_EQ(rounds(5, 1, 3), (Rounds{{5, 1000}}));
}

TEST(Halving, TakesTheBestOfEachRound) {
  auto search = search_of(5, 3);  // 5, 2, 1
  const std::vector<double> values{.1, .5, .3, .9, .2};
  EXPECT_THAT(run_all(search, values),
              ElementsAre(std::pair(0, 0), std::pair(0, 1), std::pair(0, 2), std::pair(0, 3),
                          std::pair(0, 4), std::pair(1, 3), std::pair(1, 1), std::pair(2, 3)));
  EXPECT_THAT(search.best_first(), ElementsAre(3, 1, 2, 4, 0));
  auto loss = search_of(5, 3);
  loss.greater_is_better = false;
  run_all(loss, values);
  EXPECT_THAT(loss.best_first(), ElementsAre(0, 4, 2, 1, 3));
}

TEST(Halving, LeavesOutWhatFails) {
  auto search = search_of(4, 3);  // 4, 2, 1
  run_all(search, {.1, -1, .3, .2});
  EXPECT_EQ(search.best_first().front(), 2U);
  EXPECT_FALSE(search.trials[1].failed());  // it was not among the best
  auto other = search_of(4, 3);
  other.greater_is_better = false;
  run_all(other, {.1, -1, .3, .2});
  EXPECT_EQ(other.trials[1].failure, "broken");
  EXPECT_THAT(other.best_first(), ElementsAre(0, 3, 2, 1));
  EXPECT_EQ(other.trials[3].scores.size(), 2U) << "takes the place of the one that failed";
  EXPECT_EQ(other.trials[0].scores.size(), 3U);
  EXPECT_THAT(table_of(other).to_text(), HasSubstr("failed"));
}

TEST(Halving, TakesTheNextBestForAFailureOfTheLastRound) {
  auto search = search_of(9, 3);  // 9, 3, 1
  std::vector<double> values{.1, .2, .3, .4, .5, .6, .7, .8, .9};
  run(search, 1,
      {.run = [&](size_t trial, size_t rung) -> Outcome {
         if (trial == 8 && rung == 2) return {.score = {}, .failure = "broken"};
         return {.score = {.value = values[trial]}};
       },
       .done = [](size_t, size_t) {}});
  EXPECT_EQ(search.best_first().front(), 7U);
  EXPECT_EQ(search.trials[7].scores.size(), 3U);
}

TEST(Halving, ThrowsWhatAHookThrows) {
  auto search = search_of(9, 3);
  std::atomic<int> runs{0};
  EXPECT_THROW(run(search, 3,
                   {.run =
                        [&](size_t, size_t) {
                          ++runs;
                          return Outcome{.score = {.value = 1}};
                        },
                    .done = [](size_t, size_t) { throw std::runtime_error("no space"); }}),
               std::runtime_error);
  EXPECT_LE(runs, 4);
}

TEST(Halving, GoesOnWhereItWasInterrupted) {
  const std::vector<double> values{.1, .5, .3, .9, .2};
  auto whole = search_of(5, 3);
  const auto all = run_all(whole, values);
  for (int64_t most = 0; most < std::ssize(all); ++most) {
    auto first = search_of(5, 3), second = search_of(5, 3);
    const auto begun = run_all(first, values, 1, most);
    ASSERT_TRUE(second.take(first.to_json()));
    const auto rest = run_all(second, values);
    EXPECT_EQ(begun.size() + rest.size(), all.size()) << most;
    EXPECT_EQ(second.to_json(), whole.to_json()) << most;
  }
  auto other = search_of(4, 3);
  EXPECT_FALSE(other.take(whole.to_json()));
}

TEST(Halving, FindsTheSameWithSeveralAtATime) {
  const std::vector<double> values{.1, .5, .3, .9, .2, .4, .8};
  auto one = search_of(7, 3), three = search_of(7, 3);
  run_all(one, values);
  run_all(three, values, 3);
  EXPECT_EQ(one.to_json(), three.to_json());
}

}  // namespace
}  // namespace convoy::trials
