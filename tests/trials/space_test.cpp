#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/trials/space.h"

namespace convoy::trials {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_dimension(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

double number(const Options& options, const std::string& name) {
  double out = 0;
  EXPECT_TRUE(parse_number(options.at(name), out)) << options.at(name);
  return out;
}

TEST(Space, ReadsRangesAndValues) {
  const auto rate = parse_dimension("--learning_rate=1e-4..1e-2");
  EXPECT_EQ(rate.option, "learning_rate");
  EXPECT_EQ(rate.low, 1e-4);
  EXPECT_EQ(rate.high, 1e-2);
  EXPECT_FALSE(rate.whole);
  EXPECT_TRUE(rate.is_log());
  EXPECT_TRUE(parse_dimension("n_layer=1..4").whole);
  EXPECT_FALSE(parse_dimension("dropout=0.0..0.5").whole);
  EXPECT_THAT(parse_dimension("body=sasrec,gpt2").values, testing::ElementsAre("sasrec", "gpt2"));
  EXPECT_THAT(parse_dimension("data.path=../a").values, testing::ElementsAre("../a"));
}

TEST(Space, RefusesWhatItCannotDrawFrom) {
  EXPECT_THAT(refusal("learning_rate"), HasSubstr("expected OPTION=LOW..HIGH"));
  EXPECT_THAT(refusal("=1..2"), HasSubstr("names no option"));
  EXPECT_THAT(refusal("lr=1e-2..1e-4"), HasSubstr("the smaller one first"));
  EXPECT_THAT(refusal("lr=a..b"), HasSubstr("is no range"));
  EXPECT_THAT(refusal("body=a,,b"), HasSubstr("empty or there twice"));
  EXPECT_THAT(refusal("body=a,a"), HasSubstr("empty or there twice"));
}

TEST(Space, DrawsOneTrialInEachPartOfARange) {
  constexpr int64_t kTrials = 16;
  const auto all =
      draw({parse_dimension("lr=1e-4..1e-2"), parse_dimension("drop=0.0..0.8")}, kTrials, 7);
  ASSERT_EQ(std::ssize(all), kTrials);
  std::set<int> rates, drops;
  for (const auto& options : all) {
    const double at = std::log(number(options, "lr") / 1e-4) / std::log(100.0);
    rates.insert(static_cast<int>(at * kTrials * 0.9999 + 0.02));  // three digits
    drops.insert(static_cast<int>(number(options, "drop") / 0.8 * kTrials * 0.9999));
  }
  EXPECT_EQ(std::ssize(rates), kTrials);
  EXPECT_GE(std::ssize(drops), kTrials - 1);
}

TEST(Space, DrawsTheSameOfASeedAndOthersOfAnother) {
  const std::vector<Dimension> dimensions{parse_dimension("lr=1e-4..1e-2")};
  EXPECT_EQ(draw(dimensions, 5, 1), draw(dimensions, 5, 1));
  EXPECT_NE(draw(dimensions, 5, 1), draw(dimensions, 5, 2));
}

TEST(Space, HasEachCombinationOnce) {
  const auto all = draw({parse_dimension("body=a,b,c"), parse_dimension("n=1..4")}, 100, 3);
  EXPECT_EQ(all.size(), 12U);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 12U);
  for (const auto& options : all) {
    EXPECT_THAT(options.at("n"), testing::AnyOf("1", "2", "3", "4"));
  }
  const auto from_zero = draw({parse_dimension("n=0..3")}, 100, 3);
  EXPECT_EQ(from_zero.size(), 4U);
  for (const auto& options : from_zero) EXPECT_NE(options.at("n"), "-0");
  // The run's own options are another trial, however they are spelled.
  const auto rates = parse_dimension("lr=1e-3,2e-3,5e-3");
  EXPECT_EQ(spelled(rates, "0.001"), "1e-3");
  EXPECT_EQ(spelled(rates, "0.004"), "0.004");
  for (const int64_t number : {2, 3, 10}) {
    const auto others = draw({rates}, number, 3, {{"lr", "1e-3"}});
    EXPECT_EQ(others.size(), 2U) << number;
    for (const auto& options : others) EXPECT_NE(options.at("lr"), "1e-3");
  }
  // A range whose numbers are equal in three digits ends, too.
  const auto narrow = draw({parse_dimension("x=1.0..1.004")}, 50, 3);
  EXPECT_GE(narrow.size(), 1U);
  EXPECT_LE(narrow.size(), 2U);
}

}  // namespace
}  // namespace convoy::trials
