#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "convoy/models/session/session.h"
#include "convoy/tasks/session/ranking_metrics.h"
#include "tests/parity/reference.h"

// The fixtures hold what Transformers4Rec 23.12.0 computes from the same weights and data;
// make_transformers4rec_fixtures.py beside them wrote them.
namespace convoy {
namespace {

constexpr int64_t kBatches = 20, kKinds = 7;

class Transformers4Rec : public testing::TestWithParam<const char*> {
 protected:
  Transformers4Rec()
      : name_(GetParam()),
        all_(name_.ends_with("_all")),
        file_(fixture("transformers4rec_" + name_)) {
    models::SessionConfig config;
    config.item_feature = "item_id-list";
    config.features = {{"item_id-list", true, 60}};
    if (all_) {
      config.features.push_back({"kind-list", true, kKinds});
      config.features.push_back({"price-list", false});
    }
    config.body = name_.substr(0, name_.find('_'));
    if (name_.starts_with("xlnet_clm")) {
      config.masking = "clm";
      config.attn_type = "bi";
    }
    config.d_model = 16;
    config.max_length = 9;
    config.dropout = 0;
    config.mlm_probability = 0.3;
    config.score_padding = true;
    config.attend_padding = config.body != "gpt2";
    replica_ = with_weights(file_, models::make_session_model(config));
  }

  parallel::MicroBatch batch(int64_t index) const {
    const auto ids = tensor(file_, fmt::format("ids.{}", index));
    nn::Bundle in{{"item_id-list", ids},
                  {"lengths", tensor(file_, fmt::format("lengths.{}", index))}};
    if (all_) {
      in["kind-list"] = at::where(ids > 0, ids % (kKinds - 1) + 1, at::zeros_like(ids));
      in["price-list"] = (ids % 11).to(at::kFloat) / 10;
    }
    return {in, at::arange(ids.size(0), at::kLong)};
  }

  double number(const std::string& name) const { return tensor(file_, name).item<double>(); }

  std::string name_;
  bool all_;
  formats::SafetensorsFile file_;
  std::unique_ptr<parallel::Replica> replica_;
};

TEST_P(Transformers4Rec, HasTheScoresOfPrediction) {
  const auto scores = replica_->forward(batch(0), nn::Mode::Predict).at("scores");
  EXPECT_LE(error(scores, tensor(file_, "scores")), 1e-5);
}

TEST_P(Transformers4Rec, HasTheLossOfTraining) {
  parallel::OptimizerOptions still;
  EXPECT_NEAR(replica_->step({batch(0)}, {}, still).loss() / number("loss"), 1, 1e-6);
}

TEST_P(Transformers4Rec, HasLossAndMetricsOfEvaluation) {
  tasks::RankingMetrics metrics({10, 20});
  double loss = 0;
  for (int64_t i = 0; i < kBatches; ++i) {
    const auto out = replica_->forward(batch(i), nn::Mode::Evaluate);
    loss += out.at("loss").item<double>() / out.at("count").item<double>() / kBatches;
    metrics.add(out);
  }
  EXPECT_NEAR(loss / number("eval_loss"), 1, 1e-6);
  const auto values = metrics.values("");
  for (const char* metric : {"ndcg_at", "recall_at", "avg_precision_at"}) {
    for (const int k : {10, 20}) {
      const auto key = fmt::format("{}_{}", metric, k);
      EXPECT_NEAR(values.at(key), number("metric." + key), 1e-6) << key;
      EXPECT_GT(values.at(key), 0) << key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Bodies, Transformers4Rec,
                         testing::Values("gpt2_clm_item", "gpt2_clm_all", "bert_mlm_item",
                                         "bert_mlm_all", "albert_mlm_item", "albert_mlm_all",
                                         "electra_mlm_item", "electra_mlm_all", "xlnet_mlm_item",
                                         "xlnet_mlm_all", "xlnet_clm_item", "xlnet_clm_all"));

}  // namespace
}  // namespace convoy
