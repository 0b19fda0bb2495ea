#include "convoy/conformance/comparison.h"

#include <gtest/gtest.h>

#include "convoy/base/files.h"

namespace convoy::conformance {
namespace {

namespace fs = std::filesystem;

class ComparisonTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = unique_folder("convoy-test"); }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string start(int64_t first_step, int64_t max_steps) {
    return fmt::format("{{\"start\": {{\"first_step\": {}, \"max_steps\": {}}}}}\n", first_step,
                       max_steps);
  }
  static std::string line(int64_t step, double loss) {
    return fmt::format("{{\"step\": {}, \"loss\": {}, \"grad_norm\": 1.5}}\n", step, loss);
  }
  static std::string sums(int64_t step, const std::string& sum) {
    return fmt::format("{{\"step\": {}, \"weight_sums\": {{\"w\": \"{}\"}}}}\n", step, sum);
  }

  RunLog log(const std::string& name, const std::string& text) const {
    write_file(folder_ / name / "log.jsonl", text);
    return read_run_log(folder_ / name, "");
  }

  fs::path folder_;
};

TEST_F(ComparisonTest, RunsWithoutACommonStepHaveNone) {
  const auto found =
      compare(log("a", start(0, 5) + line(5, 2)), log("b", start(0, 7) + line(7, 3)));
  EXPECT_FALSE(found.anything);
  EXPECT_FALSE(found.same_bits);
  EXPECT_FALSE(found.agrees());
}

TEST_F(ComparisonTest, TellsThatARunEndedBeforeItsEnd) {
  const auto whole = log("whole", start(0, 3) + line(1, 3) + line(2, 2) + line(3, 1));
  const auto died = compare(whole, log("died", start(0, 3) + line(1, 3)));
  EXPECT_TRUE(died.ended_early);
  EXPECT_TRUE(died.same_bits);
  EXPECT_FALSE(died.agrees());
  EXPECT_NE(died.shorter.find("died logged no step after 1 of 3, "), std::string::npos);
  // One that was to train less is equal as far as it goes.
  const auto shorter = compare(log("short", start(0, 1) + line(1, 3)), whole);
  EXPECT_FALSE(shorter.ended_early);
  EXPECT_TRUE(shorter.agrees());
  EXPECT_NE(shorter.shorter.find("short logged up to step 1, "), std::string::npos);
}

TEST_F(ComparisonTest, ComparesMeansOverTheSameStepsAlone) {
  const auto each = log("each", start(0, 4) + line(1, 4) + line(2, 3) + line(3, 2) + line(4, 1));
  const auto two = log("two", start(0, 4) + line(2, 3.5) + line(4, 1.5));
  const auto found = compare(each, two);
  EXPECT_EQ(found.loss.steps, 0);
  EXPECT_EQ(found.other_means, 2);
  EXPECT_EQ(found.grad_norm.steps, 2);
  EXPECT_TRUE(found.agrees());
  const auto late = log("late", start(0, 4) + line(2, 3.5) + line(3, 2) + line(4, 9));
  EXPECT_EQ(compare(each, late).loss.differs_from, 4);
}

TEST_F(ComparisonTest, ForgetsAllOfABranchThatTheRunLeft) {
  const auto straight = log("straight", start(0, 4) + line(2, 2) + line(4, 1) + sums(4, "a"));
  const auto back = log("back", start(0, 4) + line(2, 2) + line(3, 9) + sums(3, "x") + line(4, 9) +
                                    sums(4, "y") + start(2, 4) + line(4, 1) + sums(4, "a"));
  EXPECT_EQ(back.losses.size(), 2U);
  EXPECT_EQ(back.weight_sums.size(), 1U);
  EXPECT_EQ(back.first_of(4), 3);
  EXPECT_TRUE(compare(straight, back).same_bits);
}

TEST_F(ComparisonTest, NamesTheFirstStepBeyondRounding) {
  const auto found = compare(log("a", line(1, 2) + line(2, 2) + line(3, 2)),
                             log("b", line(1, 2) + line(2, 2.00001) + line(3, 2.1)));
  EXPECT_EQ(found.loss.differs_from, 2);
  EXPECT_EQ(found.loss.beyond_from, 3);
  EXPECT_FALSE(found.to_rounding);
}

}  // namespace
}  // namespace convoy::conformance
