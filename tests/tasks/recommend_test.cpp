#include "convoy/tasks/session/recommend.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/train/testing.h"

namespace convoy::tasks {
namespace {

TEST(Recommend, ScoresThatAreNotFiniteAreNoOrder) {
  train::TrainingArguments arguments;
  arguments.output.quiet = true;
  train::Trainer trainer(train::tiny_model(), arguments, nullptr, nullptr, train::one_device());
  const auto data = train::random_sessions(20, 50, 8);
  std::vector<int64_t> rows;
  auto note = [&](const Recommendation& row) {
    rows.push_back(row.row);
    EXPECT_EQ(row.ids.size(), 3U);
  };
  recommend(trainer, *data, {"items", "", 3, false}, note);
  ASSERT_EQ(rows.size(), 20U);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(rows[static_cast<size_t>(i)], i);

  trainer.strategy().replica().arena().masters().fill_(3e38);
  trainer.strategy().replica().arena().publish_weights();
  EXPECT_THROW(recommend(trainer, *data, {"items", "", 3, false}, note), NumericError);
}

}  // namespace
}  // namespace convoy::tasks
