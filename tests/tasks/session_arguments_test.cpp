#include "convoy/tasks/session/session_arguments.h"

#include <gmock/gmock.h>

#include "convoy/base/error.h"
#include "convoy/models/session/session.h"
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

TEST(SessionArguments, RefuseOptionsThatTheMaskingDoesNotRead) {
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

TEST(SessionArguments, CutOffsAreRanksThatCanBeCounted) {
  EXPECT_EQ(complaint({{"train.top_ks", "1,1000000"}}), "");
  for (const char* k : {"0", "1000001", "2147483648", "9223372036854775807", "1.5"}) {
    EXPECT_THAT(complaint({{"train.top_ks", k}}),
                HasSubstr(std::string("train.top_ks has '") + k +
                          "'; expected whole numbers from 1 to 1000000"));
  }
}

TEST(SessionArguments, AdviceOnTheWidthFitsANumber) {
  const auto advice = [](int64_t d_model, int64_t n_head) -> std::string {
    models::SessionConfig config;
    config.d_model = d_model;
    config.n_head = n_head;
    try {
      config.check();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(advice(INT64_MAX, 2), HasSubstr("heads; try d_model = 9223372036854775806"));
  EXPECT_THAT(advice(7, 4), HasSubstr("heads; try d_model = 8"));
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
