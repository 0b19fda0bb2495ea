#include "convoy/base/json_number.h"

#include <gtest/gtest.h>

#include <limits>

#include "convoy/base/json_value.h"

namespace convoy {
namespace {

TEST(JsonNumber, WholeNumbersAreNeitherCutNorWrapped) {
  EXPECT_EQ(whole_number<int64_t>(7), 7);
  EXPECT_EQ(whole_number<int64_t>(-7), -7);
  EXPECT_EQ(whole_number<uint64_t>(Json::parse("18446744073709551615")), UINT64_MAX);
  EXPECT_EQ(whole_number<int64_t>(Json::parse("18446744073709551615")), std::nullopt);
  EXPECT_EQ(whole_number<uint64_t>(-1), std::nullopt);
  EXPECT_EQ(whole_number<int32_t>(int64_t{INT32_MAX} + 1), std::nullopt);
  EXPECT_EQ(whole_number<int32_t>(int64_t{INT32_MIN} - 1), std::nullopt);
  for (const char* other : {"2.9", "0.5", "1e30", "1180591620717411303424", "null", "true", "\"3\"",
                            "[3]", "{}", "3.0"}) {
    EXPECT_EQ(whole_number<int64_t>(Json::parse(other)), std::nullopt) << other;
    EXPECT_EQ(whole_number<uint64_t>(Json::parse(other)), std::nullopt) << other;
  }
}

TEST(JsonNumber, RealNumbersAreFinite) {
  EXPECT_EQ(finite_number(2.5), 2.5);
  EXPECT_EQ(finite_number(-3), -3.0);
  EXPECT_EQ(finite_number(Json::parse("1e30")), 1e30);
  EXPECT_EQ(finite_number(Json::parse("18446744073709551615")), 18446744073709551615.0);
  for (const Json& other :
       {Json(std::numeric_limits<double>::quiet_NaN()),
        Json(std::numeric_limits<double>::infinity()), Json(), Json(true), Json("3"), Json({3})}) {
    EXPECT_EQ(finite_number(other), std::nullopt) << other;
  }
}

TEST(JsonValue, NumbersAreReadAlikeAlsoInListsAndPairs) {
  using Pairs = std::vector<std::pair<int64_t, int>>;
  EXPECT_EQ(value_from<Pairs>(Json::parse("[[1, 2], [3, 4]]")), (Pairs{{1, 2}, {3, 4}}));
  EXPECT_EQ(value_from<std::vector<double>>(Json::parse("[1, 2.5]")), (std::vector{1.0, 2.5}));
  EXPECT_EQ(value_at(Json::parse("{\"a\": 2}"), "a", 7), 2);
  EXPECT_EQ(value_at(Json::parse("{\"a\": 2}"), "b", 7), 7);
  EXPECT_EQ(value_from<std::string>("x"), "x");
  EXPECT_TRUE(value_from<bool>(true));
  for (const char* other : {"2.9", "1e30", "null", "true", "\"3\"", "18446744073709551615", "{}"}) {
    const auto json = Json::parse(other);
    EXPECT_THROW(value_from<int64_t>(json), Json::exception) << other;
    EXPECT_THROW(value_from<std::vector<int>>(Json::array({json})), Json::exception) << other;
    EXPECT_THROW(value_from<Pairs>(Json::array({{1, json}})), Json::exception) << other;
    EXPECT_THROW(value_at(Json{{"a", json}}, "a", 7), Json::exception) << other;
  }
  EXPECT_THROW(value_from<std::vector<int>>(Json(1)), Json::exception);
  EXPECT_THROW(value_from<double>(Json()), Json::exception);
  const auto said = [] {
    try {
      value_from<int>(Json(2.5));
    } catch (const Json::exception& error) {
      return json_trouble(error);
    }
    return std::string();
  }();
  EXPECT_EQ(said, "2.5 is not a whole number in its bounds");
}

}  // namespace
}  // namespace convoy
