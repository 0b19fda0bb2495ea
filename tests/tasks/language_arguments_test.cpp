#include "convoy/tasks/language/language_data.h"

#include <gtest/gtest.h>

#include "convoy/base/options.h"

namespace convoy::tasks {
namespace {

// Where tokens lie is each rank's own affair; which of them there are is not.
TEST(LanguageArguments, RanksMayKeepTokensWhereTheyHaveRoom) {
  LanguageData data;
  OptionTable table;
  data.declare(table, 1024);
  EXPECT_EQ(table.find("data.memory_budget_mb")->shared(), "");
  for (const char* name : {"data.block_size", "data.max_train_samples", "data.grouping"}) {
    EXPECT_NE(table.find(name)->shared(), "") << name;
  }
}

}  // namespace
}  // namespace convoy::tasks
