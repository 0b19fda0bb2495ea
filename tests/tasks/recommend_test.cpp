#include "convoy/tasks/session/recommend.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/tasks/each_row.h"
#include "tests/train/testing.h"

namespace convoy::tasks {
namespace {

TEST(Recommend, ScoresThatAreNotFiniteAreNoOrder) {
  options::TrainingArguments arguments;
  arguments.output.quiet = true;
  train::Trainer trainer(train::tiny_model(), arguments, nullptr, nullptr, train::one_device());
  const auto data = train::random_sessions(20, 50, 8);
  std::vector<int64_t> rows;
  auto note = [&](const Recommendation& row) {
    rows.push_back(row.row);
    EXPECT_EQ(row.ids.size(), 3U);
  };
  recommend(trainer, *data, {"items", "", 3}, note);
  ASSERT_EQ(rows.size(), 20U);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(rows[static_cast<size_t>(i)], i);

  trainer.strategy().replica().flat().masters().fill_(3e38);
  trainer.strategy().replica().flat().publish_weights();
  EXPECT_THROW(recommend(trainer, *data, {"items", "", 3}, note), NumericError);
}

TEST(Recommend, NoMoreIsComputedThanTheRowsThatAreAskedFor) {
  options::TrainingArguments arguments;
  arguments.output.quiet = true;
  arguments.per_device_eval_batch_size = 4;
  train::Trainer trainer(train::tiny_model(), arguments, nullptr, nullptr, train::one_device());
  int64_t read = 0;
  const auto data = dataset::make_map_dataset(20, [&](const std::vector<int64_t>& wanted) {
    const auto count = std::ssize(wanted);
    read += count;
    const auto ones = at::ones({count, 3}, at::kLong);
    return nn::Bundle{{"items", ones},
                      {"kind", ones},
                      {"price", ones.to(at::kFloat)},
                      {"lengths", at::full({count}, 3, at::kLong)}};
  });
  std::vector<int64_t> rows;
  recommend(trainer, *data, {"items", "", 3, 6},
            [&](const Recommendation& row) { rows.push_back(row.row); });
  const std::vector<int64_t> first{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(rows, first);
  EXPECT_EQ(read, 8) << "two batches";
  rows.clear();
  each_row(
      trainer, *data, 6, 1, "session",
      [](const nn::Bundle& out, const at::Tensor&) { return out.at("scores").narrow(1, 0, 1); },
      [&](int64_t row, std::span<const double>) { rows.push_back(row); });
  EXPECT_EQ(rows, first);
  EXPECT_EQ(read, 16);
}

}  // namespace
}  // namespace convoy::tasks
