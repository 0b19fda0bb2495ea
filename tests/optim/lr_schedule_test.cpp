#include "convoy/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace convoy {
namespace {

TEST(LrSchedule, HuggingFaceShapes) {
  auto at = [](const char* type, int64_t step, int64_t warmup = 10, int64_t total = 110) {
    return optim::LrSchedule{type, 1.0, warmup, total}.at(step);
  };
  EXPECT_DOUBLE_EQ(at("linear", 0), 0);
  EXPECT_DOUBLE_EQ(at("linear", 5), 0.5);
  EXPECT_DOUBLE_EQ(at("linear", 10), 1);
  EXPECT_DOUBLE_EQ(at("linear", 60), 0.5);
  EXPECT_DOUBLE_EQ(at("linear", 110), 0);
  EXPECT_NEAR(at("cosine", 60), 0.5, 1e-12);
  EXPECT_NEAR(at("cosine", 35), 0.5 * (1 + std::cos(M_PI / 4)), 1e-12);
  EXPECT_DOUBLE_EQ(at("constant", 3), 1);
  EXPECT_DOUBLE_EQ(at("constant_with_warmup", 5), 0.5);
  EXPECT_DOUBLE_EQ(at("constant_with_warmup", 50), 1);
  EXPECT_NEAR(at("polynomial", 60), (1 - 1e-7) * 0.5 + 1e-7, 1e-12);
  EXPECT_NEAR(at("inverse_sqrt", 40), 1 / std::sqrt(4.0), 1e-12);
  EXPECT_DOUBLE_EQ(at("linear", 0, 0, 4), 1);
}

}  // namespace
}  // namespace convoy
