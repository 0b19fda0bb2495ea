#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "convoy/base/error.h"
#include "convoy/models/session/session.h"
#include "convoy/nn/declare.h"
#include "tests/models/testing.h"
#include "tests/nn/testing.h"

// A session model with an item tower against the same model in plain PyTorch, in double precision.
namespace convoy::models {
namespace {

constexpr int64_t kItems = 12, kTowerWidth = 6, kGenres = 5;

/// Items 1 to 11; training saw all but 9, 10 and 11, of which 11 has no row of the embedding.
std::shared_ptr<ItemTowerValues> values_of_items() {
  auto out = std::make_shared<ItemTowerValues>();
  auto genres = at::zeros({kItems, 2}, at::kLong);
  for (int64_t item = 1; item < kItems; ++item) {
    genres[item][0] = 1 + item % (kGenres - 1);
    if (item % 3 == 0) genres[item][1] = 1 + (item + 1) % (kGenres - 1);
  }
  out->categories["genre"] = genres;
  out->numbers = at::randn({kItems, 3});
  out->numbers[0].zero_();
  out->trained = at::arange(kItems) < 9;
  return out;
}

SessionConfig tower_config() {
  auto config = small_session({.ids = kItems - 1, .width = kTowerWidth, .layers = 0, .length = 5});
  config.dropout = 0;
  config.item_tower = {{"genre", kGenres}, {"price", 0, 2}};
  config.item_values = values_of_items();
  return config;
}

/// Blocks whose parameters have values and gradients in memory.
struct BoundModel {
  explicit BoundModel(const SessionConfig& config) : blocks(make_session_model(config)) {
    for (const auto& param : nn::params_of(blocks)) {
      auto value = at::randn(param->spec().shape);
      if (param->spec().name == item_tower_name("genre")) value[0].zero_();
      param->bind_value(value);
      param->bind_grad(at::full_like(value, 77));
      params[param->spec().name] = param;
    }
  }

  nn::Bundle forward(nn::Bundle bundle, nn::Mode mode, int64_t step = 0) const {
    nn::Context context;
    context.mode = mode;
    context.step = step;
    context.samples = at::arange(bundle.at("lengths").size(0), at::kLong);
    const auto loaded = bundle;
    context.loaded = &loaded;
    for (const auto& block : blocks) {
      bundle = block->forward(bundle, context);
      ++context.block;
    }
    return bundle;
  }

  nn::BlockList blocks;
  std::map<std::string, nn::ParamPtr> params;
};

/// The same model in double precision.
struct PlainModel {
  PlainModel(const BoundModel& model, const SessionConfig& config) : values(*config.item_values) {
    for (const auto& [name, param] : model.params) {
      weights[name] = param->value().to(at::kDouble).clone().requires_grad_(true);
    }
  }

  /// Vectors of all items; `kept` [items]: whose own embedding counts.
  at::Tensor vectors(const at::Tensor& kept) const {
    const auto& own = weights.at(embedding_name("items"));
    const auto padded = at::constant_pad_nd(own, {0, 0, 0, kItems - own.size(0)});
    const auto genres =
        at::embedding(weights.at(item_tower_name("genre")), values.categories.at("genre")).sum(1);
    const auto numbers = values.numbers.to(at::kDouble).mm(weights.at(kItemTowerNumbers).t());
    return padded * kept.to(at::kDouble).unsqueeze(1) + genres + numbers;
  }

  at::Tensor states(const at::Tensor& ids, const at::Tensor& kept) const {
    const auto x = at::embedding(vectors(kept), ids) +
                   weights.at("transformer.wpe.weight").narrow(0, 0, ids.size(1));
    return at::layer_norm(x, {kTowerWidth}, weights.at("transformer.ln_f.weight"),
                          weights.at("transformer.ln_f.bias"), 1e-5);
  }

  ItemTowerValues values;
  std::map<std::string, at::Tensor> weights;
};

nn::Bundle sessions_of_items() {
  return {{"items", at::tensor({1, 2, 3, 4, 8, 5, 6, 0, 0, 0}, at::kLong).view({2, 5})},
          {"lengths", at::tensor({5, 2}, at::kLong)}};
}

/// Expects the gradients of a training with the cross-entropy over `scored` items.
void expect_gradients(const BoundModel& model, const PlainModel& plain, const at::Tensor& kept,
                      const at::Tensor& scored, int64_t step = 0) {
  const auto batch = sessions_of_items();
  const auto out = model.forward(batch, nn::Mode::Train, step);
  nn::backward(out.at("loss"));
  const auto asked = at::tensor({0, 1, 2, 3, 5}, at::kLong);
  const auto targets = at::tensor({2, 3, 4, 8, 6}, at::kLong);
  const auto h = plain.states(batch.at("items"), kept).reshape({-1, kTowerWidth});
  const auto table = plain.vectors(kept).index_select(0, scored);
  const auto columns = at::searchsorted(scored, targets);
  const auto loss = at::cross_entropy_loss(h.index_select(0, asked).mm(table.t()), columns, {},
                                           at::Reduction::Sum);
  nn::backward(loss);
  EXPECT_NEAR(out.at("loss").item<double>() / loss.item<double>(), 1, 1e-6);
  for (const auto& [name, param] : model.params) {
    SCOPED_TRACE(name);
    auto expected = plain.weights.at(name).grad().clone();
    if (name == item_tower_name("genre")) expected[0].zero_();  // no category
    ASSERT_TRUE(param->grad_written());
    EXPECT_LE((param->grad() - expected).abs().max().item<double>(),
              1e-6 * (1 + expected.abs().max().item<double>()));
  }
}

TEST(ItemTower, TrainsAsPlainTorchDoes) {
  at::manual_seed(1);
  const auto config = tower_config();
  const BoundModel model(config);
  const PlainModel plain(model, config);
  // Items that training does not see are none of its negatives.
  expect_gradients(model, plain, config.item_values->trained, at::arange(1, 9, at::kLong));
}

TEST(ItemTower, DropsOwnEmbeddingsOfAShareOfTheItemsInTraining) {
  at::manual_seed(2);
  at::set_num_threads(1);
  auto config = tower_config();
  config.item_id_dropout = 0.5;
  const BoundModel model(config);
  const auto loss_of = [&](nn::Mode mode, int64_t step) {
    at::NoGradGuard no_grad;
    return model.forward(sessions_of_items(), mode, step).at("loss").item<double>();
  };
  EXPECT_EQ(loss_of(nn::Mode::Train, 3), loss_of(nn::Mode::Train, 3));
  EXPECT_NE(loss_of(nn::Mode::Train, 3), loss_of(nn::Mode::Train, 4));
  EXPECT_EQ(loss_of(nn::Mode::Evaluate, 3), loss_of(nn::Mode::Evaluate, 4));
  // The loss tells which of the eight items have kept their embedding.
  const double wanted = loss_of(nn::Mode::Train, 3);
  std::vector<at::Tensor> found;
  for (int64_t choice = 0; choice < 256; ++choice) {
    at::NoGradGuard no_grad;
    auto kept = at::zeros({kItems}, at::kBool);
    for (int64_t item = 1; item < 9; ++item) kept[item] = (choice >> (item - 1)) % 2 == 1;
    const PlainModel plain(model, config);
    const auto h = plain.states(sessions_of_items().at("items"), kept)
                       .reshape({-1, kTowerWidth})
                       .index_select(0, at::tensor({0, 1, 2, 3, 5}, at::kLong));
    const auto loss =
        at::cross_entropy_loss(h.mm(plain.vectors(kept).narrow(0, 1, 8).t()),
                               at::tensor({1, 2, 3, 7, 5}, at::kLong), {}, at::Reduction::Sum);
    if (std::abs(loss.item<double>() / wanted - 1) < 1e-6) found.push_back(kept);
  }
  ASSERT_EQ(found.size(), 1U);
  const PlainModel plain(model, config);
  expect_gradients(model, plain, found[0], at::arange(1, 9, at::kLong), /*step=*/3);
}

TEST(ItemTower, RanksItemsBeyondTheEmbeddingByTheirFeatures) {
  at::manual_seed(3);
  const auto config = tower_config();
  const BoundModel model(config);
  const PlainModel plain(model, config);
  at::NoGradGuard no_grad;
  nn::Bundle batch{{"items", at::tensor({1, 11, 9}, at::kLong).view({1, 3})},
                   {"lengths", at::tensor({3}, at::kLong)}};
  const auto scores = model.forward(batch, nn::Mode::Predict).at("scores");
  const auto kept = config.item_values->trained;
  const auto expected = plain.states(batch.at("items"), kept)
                            .select(1, 2)
                            .mm(plain.vectors(kept).narrow(0, 1, kItems - 1).t());
  ASSERT_EQ(scores.size(1), kItems - 1);
  EXPECT_TRUE(at::allclose(scores.to(at::kDouble), expected, 1e-5, 1e-5));
  EXPECT_TRUE(
      at::allclose(output_vectors(model.blocks).to(at::kDouble), plain.vectors(kept), 1e-5, 1e-5));
  const auto ranked = model.forward(batch, nn::Mode::Evaluate);  // 9 after 1 and 11
  const auto before = plain.states(batch.at("items"), kept)
                          .select(1, 1)
                          .mm(plain.vectors(kept).narrow(0, 1, kItems - 1).t());
  const auto rank = (before > before.select(1, 8).unsqueeze(1)).sum() + 1;
  EXPECT_EQ(ranked.at("target_rank").item<int64_t>(), rank.item<int64_t>());
}

TEST(ItemTower, RefusesWhatItDoesNotGoWith) {
  auto untied = tower_config();
  untied.weight_tying = false;
  EXPECT_THROW(untied.check(), UsageError);
  auto replaced = tower_config();
  replaced.body = "electra";
  replaced.masking = "rtd";
  EXPECT_THROW(replaced.check(), UsageError);
}

TEST(ItemTower, IsKeptInConfigJson) {
  auto config = tower_config();
  config.item_tower[1].mean = 3.5;
  config.item_tower[1].deviation = 0.25;
  config.item_id_dropout = 0.1;
  SessionConfig again;
  again.read_json(config.to_json(), "config.json");
  EXPECT_EQ(again.to_json(), config.to_json());
  ASSERT_EQ(again.item_tower.size(), 2U);
  EXPECT_EQ(again.item_tower[1].mean, 3.5);
  EXPECT_EQ(again.item_tower[0].cardinality, kGenres);
}

}  // namespace
}  // namespace convoy::models
