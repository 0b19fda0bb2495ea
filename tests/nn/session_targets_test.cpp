#include "convoy/models/session/session_targets.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "tests/models/testing.h"
#include "tests/nn/testing.h"

namespace convoy::models {
namespace {

/// Sessions of 3, 6 and 1 of the "items", "bought" and "total" of each.
nn::Bundle three_sessions() {
  const auto ids =
      at::tensor({3, 9, 4, 0, 0, 0, 7, 2, 11, 12, 5, 1, 8, 0, 0, 0, 0, 0}, at::kLong).view({3, 6});
  return {{"items", ids},
          {"time", at::arange(18, at::kLong).view({3, 6}) * 100},
          {"lengths", at::tensor({3, 6, 1}, at::kLong)},
          {"bought", at::tensor({1, 0, 1}, at::kLong)},
          {"total", at::tensor({1.5F, -2.0F, 0.25F})}};
}

SessionConfig with_targets(const std::string& body, const std::string& summary = "last") {
  auto config = small_session({.ids = 30, .width = 8, .length = 6});
  config.body = body;
  config.summary_type = summary;
  config.time_feature = "time";
  config.dropout = 0;
  config.targets = {{"bought", true, 0.5}, {"total", false, 0.25}};
  config.next_item_weight = 2;
  return config;
}

nn::Bundle run_model(const SessionConfig& config, nn::Bundle bundle, nn::Mode mode,
                     std::map<std::string, at::Tensor>* params = nullptr) {
  at::NoGradGuard no_grad;
  nn::Context context;
  context.mode = mode;
  context.samples = at::arange(bundle.at("items").size(0), at::kLong);
  for (const auto& block : make_session_model(config)) {
    for (const auto& param : block->params()) {
      auto spec = param->spec();
      if (spec.name.starts_with("prediction_tasks")) spec.init = nn::Init::normal(0.5);
      auto value = at::empty(spec.shape);
      nn::initialize(spec, 1, value);
      param->bind_value(value);
      if (params != nullptr) (*params)[spec.name] = value;
    }
    bundle = block->forward(bundle, context);
  }
  return bundle;
}

TEST(SessionTargets, AreReadFromTheStateThatIsAskedFor) {
  for (const std::string summary : {"last", "first", "mean", "cls"}) {
    auto config = with_targets("gpt2", summary);
    config.n_layer = 0;  // a state is its item and position, normalised
    std::map<std::string, at::Tensor> params;
    const auto out = run_model(config, three_sessions(), nn::Mode::Predict, &params);
    const auto ids = three_sessions().at("items"), lengths = three_sessions().at("lengths");
    for (int64_t row = 0; row < 3; ++row) {
      const int64_t length = lengths[row].item<int64_t>();
      const auto items = params.at("embeddings.items.weight").index_select(0, ids[row]);
      const auto& places = params.at("transformer.wpe.weight");
      auto x = (items + places.narrow(0, 0, 6)).narrow(0, 0, length);
      if (summary == "cls") x = (params.at("cls_token") + places[length]).unsqueeze(0);
      x = at::layer_norm(x, {8}, params.at("transformer.ln_f.weight"),
                         params.at("transformer.ln_f.bias"), config.layer_norm_epsilon);
      const auto state = summary == "last" ? x[-1] : summary == "first" ? x[0] : x.mean(0);
      const auto score = [&](const std::string& column) {
        return at::addmv(params.at("prediction_tasks." + column + ".bias"),
                         params.at("prediction_tasks." + column + ".weight"), state)[0];
      };
      nn::expect_close(out.at("prediction.bought")[row], at::sigmoid(score("bought")));
      nn::expect_close(out.at("prediction.total")[row], score("total"));
    }
  }
}

TEST(SessionTargets, CountOnceForEachItemThatIsAskedFor) {
  auto config = with_targets("gpt2");
  const auto all = run_model(config, three_sessions(), nn::Mode::Train);
  const auto said = run_model(config, three_sessions(), nn::Mode::Predict);
  auto alone = config;
  alone.targets.clear();
  const auto items = run_model(alone, three_sessions(), nn::Mode::Train);
  EXPECT_EQ(all.at("count").item<int64_t>(), 7);
  const auto p = said.at("prediction.bought"), wanted = three_sessions().at("bought");
  const auto binary = -at::where(wanted == 1, p, 1 - p).log();
  const auto numbers = (said.at("prediction.total") - three_sessions().at("total")).square();
  const auto times = at::tensor({2.0F, 5.0F, 1.0F});
  const auto expected =
      items.at("loss") * 2 + (binary * times).sum() * 0.5 + (numbers * times).sum() * 0.25;
  EXPECT_NEAR(all.at("loss").item<double>() / expected.item<double>(), 1, 1e-6);
}

TEST(SessionTargets, EvaluationPredictsAsPredictionDoes) {
  for (const auto& [body, summary] : std::vector<std::pair<std::string, std::string>>{
           {"gpt2", "mean"}, {"xlnet", "mean"}, {"gpt2", "cls"}, {"xlnet", "cls"}}) {
    auto config = with_targets(body, summary);
    if (config.body == "xlnet") config.masking = "clm";
    const auto told = run_model(config, three_sessions(), nn::Mode::Evaluate);
    auto alone = three_sessions();
    for (const char* column : {"bought", "total"}) alone.erase(column);
    const auto said = run_model(config, alone, nn::Mode::Predict);
    for (const char* column : {"prediction.bought", "prediction.total"}) {
      nn::expect_close(told.at(column), said.at(column));
    }
    EXPECT_TRUE(at::equal(told.at("answer.bought"), at::tensor({1.0F, 0.0F, 1.0F})));
  }
}

// Predictions pass over items that the model does not know, so evaluations must not read such a
// target: neither one that training never saw nor another one's place (kMissed).
TEST(SessionTargets, DoNotReadAnUnknownTarget) {
  constexpr int64_t kUnseen = 29;
  auto evaluated = three_sessions(), predicted = three_sessions();
  for (const char* column : {"bought", "total"}) predicted.erase(column);
  for (int64_t row = 0; row < 2; ++row) {
    const auto last = evaluated.at("lengths")[row].item<int64_t>() - 1;
    evaluated["items"][row][last] = row == 0 ? kUnseen : 7;
    predicted["items"][row][last] = 0;
    predicted["lengths"][row] = last;
  }
  evaluated[kMissed] = at::tensor({0, 1, 0}, at::kLong);
  std::vector<std::pair<std::string, std::string>> bodies{{"xlnet", "bi"}};
  for (const auto& body : bodies_that_learn_by("")) {
    if (session_body(body).reads_times) continue;  // a target's time is where cls stands for it
    for (const auto& masking : session_body(body).maskings) bodies.emplace_back(body, masking);
  }
  for (const auto& [body, masking] : bodies) {
    for (const std::string summary : {"last", "first", "mean", "cls"}) {
      auto config = with_targets(body, summary);
      config.masking = masking == "bi" ? "clm" : masking;
      if (masking == "bi") config.attn_type = "bi";
      config.unseen_items = {kUnseen};
      const auto told = run_model(config, evaluated, nn::Mode::Evaluate);
      const auto said = run_model(config, predicted, nn::Mode::Predict);
      SCOPED_TRACE(body + " " + masking + " " + summary);
      for (const char* column : {"prediction.bought", "prediction.total"}) {
        nn::expect_close(told.at(column).narrow(0, 0, 2), said.at(column).narrow(0, 0, 2));
      }
      // The missed row has a prediction, but no rank and no loss.
      const auto lengths = three_sessions().at("lengths");
      const auto ranked = (lengths > 1).sum().item<int64_t>() - 1;
      EXPECT_EQ(told.at("count").item<int64_t>(), ranked);
    }
  }
}

// A body that looks at both sides reads cls, too.
TEST(SessionTargets, ClsDoesNotChangeWhatCausalBodiesPredict) {
  for (const auto& body : bodies_that_learn_by("clm")) {
    if (session_body(body).reads_times) continue;  // HSTU divides by the number of positions
    const auto scores = [&](const std::string& summary, nn::Mode mode, const char* name) {
      auto config = with_targets(body, summary);
      config.masking = "clm";
      return run_model(config, three_sessions(), mode).at(name);
    };
    nn::expect_close(scores("cls", nn::Mode::Predict, "scores"),
                     scores("last", nn::Mode::Predict, "scores"));
    EXPECT_TRUE(at::equal(scores("cls", nn::Mode::Evaluate, "target_rank"),
                          scores("last", nn::Mode::Evaluate, "target_rank")));
  }
}

// Also where a position for the next item is between them.
TEST(SessionTargets, ClsReadsEveryItem) {
  for (const auto& body : bodies_that_learn_by("")) {
    for (const auto& masking : session_body(body).maskings) {
      auto config = with_targets(body, "cls");
      config.masking = masking;
      auto params = std::map<std::string, at::Tensor>();
      const auto told = run_model(config, three_sessions(), nn::Mode::Predict, &params);
      for (int64_t place = 0; place < 3; ++place) {
        auto other = three_sessions();
        other["items"][0][place] = 20;
        const auto changed = run_model(config, other, nn::Mode::Predict).at("prediction.total");
        const auto before = told.at("prediction.total");
        EXPECT_NE(changed[0].item<float>(), before[0].item<float>()) << body << place;
        EXPECT_EQ(changed[1].item<float>(), before[1].item<float>()) << body << place;
      }
    }
  }
}

TEST(SessionTargets, RowsWithoutItemsDoNotCount) {
  auto config = with_targets("bert", "cls");
  auto none = three_sessions();
  none["items"] = at::zeros_like(none.at("items"));
  const auto out = run_model(config, none, nn::Mode::Evaluate);
  EXPECT_EQ(out.at("loss").item<float>(), 0);
  EXPECT_TRUE(out.at("answer.total").isnan().all().item<bool>());
}

}  // namespace
}  // namespace convoy::models
