#include "convoy/base/json_number.h"

#include <gtest/gtest.h>

#include <limits>

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

}  // namespace
}  // namespace convoy
