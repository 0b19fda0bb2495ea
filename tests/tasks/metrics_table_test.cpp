#include "convoy/tasks/metrics_table.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/train/logging/console.h"
#include "convoy/train/scorer.h"

namespace convoy::tasks {
namespace {

const train::Metrics kEvaluation{{"eval_loss", 5},
                                 {"eval_ndcg_at_5", 0.04},
                                 {"eval_ndcg_at_10", 0.0603},
                                 {"eval_ndcg_at_20", 0.08},
                                 {"eval_ndcg_at_5_stderr", 0.005},
                                 {"eval_ndcg_at_10_stderr", 0.0055},
                                 {"eval_ndcg_at_20_stderr", 0.006},
                                 {"eval_avg_precision_at_10", 0.05},
                                 {"eval_popularity_baseline_ndcg_at_10", 0.0224},
                                 {"eval_bought_auc", 0.75},
                                 {"eval_samples", 943}};

TEST(MetricsTable, HasCutoffsInOrderErrorsAndTheBaseline) {
  EXPECT_EQ(metrics_table(kEvaluation),
            "                    @5                @10               @20\n"
            "------------------  ----------------  ----------------  ----------------\n"
            "NDCG                0.0400 +- 0.0050  0.0603 +- 0.0055  0.0800 +- 0.0060\n"
            "NDCG of popularity  -                 0.0224            -\n");
  const auto text = evaluation_text("evaluated", kEvaluation);
  EXPECT_EQ(text.find("evaluated: loss 5.0000  bought_auc 0.7500; +- is one standard error\n"), 0)
      << text;
  EXPECT_EQ(metrics_table({{"eval_accuracy", 0.5}}), "");
  EXPECT_EQ(evaluation_text("evaluated", {{"eval_accuracy", 0.5}}), "evaluated: accuracy 0.5000\n");
}

TEST(MetricsTable, ALineHasOneCutOffAndNeitherErrorsNorBaselines) {
  EXPECT_EQ(train::metrics_text(kEvaluation), "loss 5.0000  bought_auc 0.7500  ndcg@10 0.0603");
  EXPECT_EQ(train::metrics_text({{"eval_ndcg_at_5", 0.04}, {"eval_exclude_seen", 1}}),
            "ndcg@5 0.0400  ranked among unseen items");
}

TEST(MetricsTable, ErrorsAndBaselinesChooseNoModel) {
  struct Known : train::Scorer {
    void add(const nn::Bundle&) override {}
    void reduce(const comm::Group&) override {}
    std::map<std::string, double> values(const std::string&, double) const override {
      return kEvaluation;
    }
  };
  const train::MakeScorer make = [] { return std::make_unique<Known>(); };
  EXPECT_NO_THROW(train::check_best_metric("ndcg_at_10", make));
  for (const char* name : {"ndcg_at_10_stderr", "popularity_baseline_ndcg_at_10"}) {
    EXPECT_THROW(train::check_best_metric(name, make), UsageError) << name;
  }
}

}  // namespace
}  // namespace convoy::tasks
