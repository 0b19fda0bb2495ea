#include "convoy/train/checkpoints/best_model.h"

#include <gmock/gmock.h>

#include "convoy/base/error.h"
#include "convoy/base/metric_direction.h"
#include "convoy/train/checkpoints/disk_space.h"

namespace convoy::train {
namespace {

using ::testing::HasSubstr;

/// What tells of a metric that nobody has heard of.
struct Declares : Scorer {
  void add(const nn::Bundle&) override {}
  void reduce(const comm::Group&) override {}
  std::map<std::string, double> values(const std::string&, double) const override { return {}; }
  std::optional<bool> greater_is_better(const std::string& metric) const override {
    if (metric == "distance") return false;
    return std::nullopt;
  }
};

TEST(BestModels, MetricsTellWhichWayIsBetter) {
  for (const char* less : {"loss", "item_loss", "price_mse", "rmse", "perplexity", "Perplexity"}) {
    EXPECT_EQ(convoy::greater_is_better(less), false) << less;
  }
  for (const char* more : {"ndcg_at_10", "/next-item/recall_at_20", "mrr_at_5", "accuracy", "f1",
                           "click_auc", "avg_precision_at_10"}) {
    EXPECT_EQ(convoy::greater_is_better(more), true) << more;
  }
  for (const char* unknown : {"mean_rank", "among_20", "loss_of_nerve", "", "_at_10"}) {
    EXPECT_EQ(convoy::greater_is_better(unknown), std::nullopt) << unknown;
  }
}

TEST(BestModels, ASmallerPerplexityIsBetter) {
  options::TrainingArguments arguments;
  arguments.metric_for_best_model = "perplexity";
  BestModel best(arguments);
  best.find_direction(nullptr);
  TrainerState state;
  for (const double perplexity : {11631.0, 9000.0, 3552.0}) {
    ++state.global_step;
    EXPECT_TRUE(best.update({{"eval_perplexity", perplexity}}, state));
  }
  EXPECT_EQ(state.best_step, 3);
}

TEST(BestModels, AScorerOrThePersonTellsOfAnotherMetric) {
  options::TrainingArguments arguments;
  arguments.metric_for_best_model = "eval_distance";
  const Declares scorer;
  BestModel declared(arguments);
  declared.find_direction(&scorer);
  EXPECT_THAT(declared.full_name(), HasSubstr("less is better"));
  try {
    BestModel(arguments).find_direction(nullptr);
    ADD_FAILURE() << "nothing tells";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--greater_is_better true or false"));
  }
  arguments.greater_is_better = "true";
  BestModel asked(arguments);
  asked.find_direction(&scorer);
  EXPECT_THAT(asked.full_name(), HasSubstr("greater is better"));
}

// As Hugging Face's: the threshold is the patience's, and compares with the best so far.
TEST(BestModels, ThresholdIsForThePatienceAlone) {
  options::TrainingArguments arguments;
  arguments.early_stopping_patience = 3;
  arguments.early_stopping_threshold = 0.01;
  BestModel best(arguments);
  best.find_direction(nullptr);
  TrainerState state;
  for (const double loss : {1.000, 0.995, 0.992, 0.991}) {
    EXPECT_FALSE(best.out_of_patience(state));
    ++state.global_step;
    EXPECT_TRUE(best.update({{"eval_loss", loss}}, state));
  }
  EXPECT_EQ(state.best_step, 4);
  EXPECT_TRUE(best.out_of_patience(state));
}

TEST(Disks, OneCheckpointMoreThanTheLimitNeedsRoom) {
  Saves saves{.checkpoint_bytes = 100, .model_bytes = 30, .num_checkpoints = 40};
  EXPECT_EQ(needed_bytes(saves), 40 * 100 + 30);
  saves.limit = 3;
  EXPECT_EQ(needed_bytes(saves), 4 * 100 + 30);
  saves.num_there = 2;
  EXPECT_EQ(needed_bytes(saves), 2 * 100 + 30) << "the others go first";
  saves.num_there = 9;
  EXPECT_EQ(needed_bytes(saves), 100 + 30);
  EXPECT_EQ(tell_lack_of_space(saves, "out", 130), "");
  EXPECT_THAT(tell_lack_of_space(saves, "out", 129), HasSubstr("out has 129 B free"));
  EXPECT_GT(free_space("no/such/folder").value(), 0);
}

}  // namespace
}  // namespace convoy::train
