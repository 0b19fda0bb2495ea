#include "convoy/tasks/session/session_arguments.h"

#include <gmock/gmock.h>

#include "convoy/base/error.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {
namespace {

using testing::HasSubstr;

/// What is wrong with options of a session model; "" = nothing.
std::string complaint(const std::vector<std::pair<std::string, std::string>>& options) {
  SessionTask task;
  OptionTable table;
  task.declare(table);
  try {
    for (const auto& [key, value] : options) table.set(key, value, "command line");
    table.check();
    task.settle(table);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SessionArguments, WhatAMaskingDoesNotReadIsAnError) {
  const std::pair<std::string, std::string> xlnet{"model.body", "xlnet"};
  const std::pair<std::string, std::string> hides{"model.mlm_probability", "0.3"};
  EXPECT_EQ(complaint({xlnet, hides}), "");
  EXPECT_THAT(complaint({xlnet, hides, {"model.masking", "plm"}}),
              HasSubstr("mlm_probability has no effect with masking = plm; try --plm_probability"));
  EXPECT_THAT(complaint({xlnet, hides, {"model.masking", "clm"}}),
              HasSubstr("mlm_probability has no effect with masking = clm; try --masking mlm"));
  EXPECT_THAT(complaint({{"model.body", "sasrec"}, hides}), HasSubstr("no effect"));
  const std::pair<std::string, std::string> both{"model.attn_type", "bi"};
  EXPECT_EQ(complaint({xlnet, both, {"model.masking", "clm"}}), "");
  EXPECT_THAT(complaint({xlnet, both}),
              HasSubstr("attn_type has no effect with masking = mlm; try --masking clm"));
  EXPECT_THAT(complaint({both}), HasSubstr("no effect"));
  EXPECT_THAT(complaint({{"model.train_on_last_item_seq_only", "true"}, {"model.body", "bert"}}),
              HasSubstr("no effect"));
  EXPECT_THAT(complaint({{"model.rtd_discriminator_loss_weight", "9"}}),
              HasSubstr("try --masking rtd"));
  EXPECT_THAT(complaint({{"model.n_negatives", "3"}}), HasSubstr("try --loss gbce"));
}

TEST(SessionArguments, BodiesOfOtherProgramsAreAnsweredWithOneOfHere) {
  EXPECT_THAT(complaint({{"model.body", "transfo-xl"}}), HasSubstr("is not here; try xlnet"));
  for (const char* other : {"longformer", "reformer", "roberta"}) {
    EXPECT_THAT(complaint({{"model.body", other}}), HasSubstr("is not here; try bert"));
  }
  EXPECT_THAT(complaint({{"model.body", "xlnot"}}), HasSubstr("did you mean 'xlnet'"));
}

}  // namespace
}  // namespace convoy::tasks
