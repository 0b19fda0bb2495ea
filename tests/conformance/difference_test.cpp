#include "convoy/conformance/difference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::conformance {
namespace {

namespace fs = std::filesystem;

/// A training of two steps with one weight and its moments.
struct Written {
  std::vector<float> weight{1, 2, 3, 4}, first{0.1F, 0.2F, 0.3F, 0.4F}, second{1, 1, 1, 1};
  double loss = 2.5, norm = 0.5;
};

class DifferenceTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = unique_folder("convoy-test"); }
  void TearDown() override { fs::remove_all(folder_); }

  static formats::TensorView view(const std::string& name, const std::vector<float>& values) {
    return {name, "F32", {std::ssize(values)}, values.data(), values.size() * sizeof(float)};
  }

  TrainingRecord record(const std::string& name, const Written& it) const {
    const auto run = folder_ / name;
    fs::create_directories(run / "checkpoint-2");
    write_file(run / "log.jsonl",
               fmt::format("{{\"step\": 1, \"loss\": 3.5, \"grad_norm\": 0.25}}\n"
                           "{{\"eval_loss\": 1}}\n"
                           "{{\"step\": 2, \"loss\": {}, \"grad_norm\": {}}}\n",
                           it.loss, std::isfinite(it.norm) ? std::to_string(it.norm) : "null"));
    formats::write_safetensors(run / "checkpoint-2/model.safetensors",
                               std::vector{view("w", it.weight)});
    formats::write_safetensors(
        run / "checkpoint-2/optimizer.safetensors",
        std::vector{view("exp_avg.w", it.first), view("exp_avg_sq.w", it.second)});
    return read(name);
  }

  TrainingRecord read(const std::string& name, int64_t steps = 2) const {
    return read_record(folder_ / name, steps, folder_ / name / "checkpoint-2");
  }

  Difference of(const Written& training) const {
    return difference(record("training", training), record("reference", {}));
  }

  fs::path folder_;
};

TEST_F(DifferenceTest, IsNothingBetweenEqualTrainings) {
  const auto found = of({});
  EXPECT_TRUE(found.same_bits);
  EXPECT_EQ(found.losses.size + found.norms.size + found.gradients.size + found.weights.size, 0);
}

// A weight that is not trained has the dtype of the products.
TEST_F(DifferenceTest, ComparesNumbersOfOtherDtypes) {
  const auto reference = record("reference", {});
  record("training", {});
  const std::vector<double> wide{1, 2, 3, 4.5};
  formats::write_safetensors(
      folder_ / "training/checkpoint-2/model.safetensors",
      std::vector{formats::TensorView{"w", "F64", {4}, wide.data(), 4 * sizeof(double)}});
  const auto found = difference(read("training"), reference);
  EXPECT_FALSE(found.same_bits);
  EXPECT_NEAR(found.weights.size, 0.5 / std::sqrt(30.0), 1e-6);
}

TEST_F(DifferenceTest, SeesTheLastBitOfEachKindOfNumber) {
  Written weight, first, second, loss;
  weight.weight[3] = std::nextafter(4.0F, 5.0F);
  first.first[0] = std::nextafter(0.1F, 1.0F);
  second.second[2] = std::nextafter(1.0F, 2.0F);
  loss.loss = std::nextafter(2.5, 3.0);
  for (const auto& it : {weight, first, second, loss}) EXPECT_FALSE(of(it).same_bits);
}

TEST_F(DifferenceTest, IsRelativeToTheNormOfAll) {
  Written it;
  it.weight[0] = 1.5F;
  const auto found = of(it);
  EXPECT_NEAR(found.weights.size, 0.5 / std::sqrt(1.0 + 4 + 9 + 16), 1e-12);
  EXPECT_EQ(found.weights.where, "w");
}

TEST_F(DifferenceTest, LeavesOutUpdatesByRoundingErrorAlone) {
  Written reference;
  reference.second = {1, 1, 1, 1e-12F};
  auto training = reference;
  training.weight[3] = 4.1F;
  const auto found = difference(record("training", training), record("reference", reference));
  EXPECT_EQ(found.weights.size, 0);
  EXPECT_FALSE(found.same_bits);
}

TEST_F(DifferenceTest, NonFiniteNumbersDifferInfinitely) {
  Written norm, weight;
  norm.norm = NAN;
  weight.weight[1] = NAN;
  EXPECT_TRUE(std::isinf(of(norm).norms.size));
  EXPECT_EQ(of(norm).norms.where, "step 2");
  EXPECT_TRUE(std::isinf(of(weight).weights.size));
}

TEST_F(DifferenceTest, NeedsEachStepInTheLog) {
  record("training", {});
  EXPECT_THROW(read("training", 3), FileError);
}

TEST_F(DifferenceTest, TakesStepsThatFp16SkippedOnBothSides) {
  const auto skipping = [&](const std::string& name, int64_t skipped) {
    record(name, {});
    const auto run = folder_ / name;
    write_file(run / "log.jsonl", "{\"step\": 2, \"loss\": 2.5, \"grad_norm\": 0.5}\n");
    write_file(run / "checkpoint-2/trainer_state.json",
               fmt::format("{{\"skipped_steps\": {}}}", skipped));
    return read(name);
  };
  const auto one = skipping("one", 1), other = skipping("other", 1);
  EXPECT_TRUE(difference(one, other).same_bits);
  EXPECT_TRUE(std::isinf(difference(one, record("whole", {})).first_loss.size));
  EXPECT_THROW(skipping("lost", 0), FileError);
}

TEST_F(DifferenceTest, ReadsAnAdapter) {
  const auto adapter = [&](const std::string& name, std::vector<float> second) {
    const Written it{.second = std::move(second)};
    record(name, it);
    const auto checkpoint = folder_ / name / "checkpoint-2";
    fs::remove(checkpoint / "model.safetensors");
    formats::write_safetensors(checkpoint / "adapter_model.safetensors",
                               std::vector{view("base_model.model.w", it.weight)});
    return read(name);
  };
  EXPECT_TRUE(difference(adapter("a", {1, 1, 1, 1}), adapter("b", {1, 1, 1, 1})).same_bits);
}

}  // namespace
}  // namespace convoy::conformance
