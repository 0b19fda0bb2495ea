#include "convoy/models/session/session_features.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "convoy/base/error.h"
#include "convoy/models/session/swap_noise.h"
#include "tests/models/testing.h"
#include "tests/nn/testing.h"

namespace convoy::models {
namespace {

nn::Context rows_context(int64_t rows) {
  nn::Context context;
  context.samples = at::arange(rows, at::kLong);
  return context;
}

TEST(SwapNoise, ReplacesTheShareThatIsAskedForByOthersOfTheColumn) {
  constexpr int64_t kRows = 2000, kLength = 9;
  const auto column = at::full({kRows, kLength}, 5, at::kLong);
  auto real = at::ones({kRows, kLength}, at::kBool);
  real.narrow(1, 7, 2).fill_(false);
  const auto values = at::tensor({11, 12, 13, 14}, at::kLong);
  const auto context = rows_context(kRows);
  const auto noisy = swap_noise(column, real, values, 0.3, "kind", context);
  EXPECT_TRUE(noisy.narrow(1, 7, 2).eq(5).all().item<bool>()) << "padding stays";
  const double count = kRows * 7, share = noisy.ne(5).sum().item<double>() / count;
  EXPECT_NEAR(share, 0.3, 4.5 * std::sqrt(0.3 * 0.7 / count));
  for (const int64_t value : {11, 12, 13, 14}) {
    EXPECT_NEAR(noisy.eq(value).sum().item<double>() / count, 0.075,
                4.5 * std::sqrt(0.075 * 0.925 / count))
        << value;
  }
  EXPECT_TRUE(at::equal(swap_noise(column, real, values, 0.3, "kind", context), noisy));
  const auto other = swap_noise(column, real, values, 0.3, "price", context);
  const double both = noisy.ne(5).logical_and(other.ne(5)).sum().item<double>() / count;
  EXPECT_NEAR(both, 0.09, 4.5 * std::sqrt(0.09 * 0.91 / count)) << "columns are drawn apart";

  // However a batch is cut.
  auto some = context;
  some.samples = context.samples.narrow(0, 40, 3);
  const auto part = swap_noise(column.narrow(0, 40, 3).narrow(1, 0, 5),
                               real.narrow(0, 40, 3).narrow(1, 0, 5), values, 0.3, "kind", some);
  EXPECT_TRUE(at::equal(part, noisy.narrow(0, 40, 3).narrow(1, 0, 5)));
}

/// What a model without layers reads of a row of "items" 3, 9 with "price" 0.5, -2.
class ReadFeatures {
 public:
  explicit ReadFeatures(SessionConfig config, nn::Mode mode = nn::Mode::Predict) {
    at::NoGradGuard no_grad;
    config.n_layer = 0;
    const auto input = make_session_model(config).front();
    for (const auto& param : input->params()) {
      auto spec = param->spec();
      if (spec.init.kind == nn::Init::Kind::Zeros) spec.init = nn::Init::normal(0.3);
      auto value = at::empty(spec.shape);
      nn::initialize(spec, 1, value);
      param->bind_value(value);
      params_[spec.name] = value;
    }
    auto context = rows_context(1);
    context.mode = mode;
    hidden = input->forward({{"items", items}, {"price", price}, {"lengths", at::tensor({2})}},
                            context)["hidden"] -
             params_.at("transformer.wpe.weight").narrow(0, 0, 2);
  }

  const at::Tensor& operator[](const std::string& name) const { return params_.at(name); }

  const at::Tensor items = at::tensor({3, 9}, at::kLong).view({1, 2});
  const at::Tensor price = at::tensor({0.5F, -2.0F}).view({1, 2});
  at::Tensor hidden;

 private:
  std::map<std::string, at::Tensor> params_;
};

SessionConfig with_price() {
  auto config = small_session({.ids = 30, .width = 8, .length = 6});
  config.features.push_back({"price", false, 0});
  config.aggregation = "element-wise-sum";
  return config;
}

TEST(SessionFeatures, SoftEmbeddingsMixVectors) {
  auto config = with_price();
  config.soft_embeddings = true;
  config.soft_embedding_cardinality = 3;
  const ReadFeatures read(config);
  const auto scores =
      at::linear(read.price.unsqueeze(-1), read["soft_embeddings.price.projection_layer.weight"],
                 read["soft_embeddings.price.projection_layer.bias"]);
  const auto mixed =
      at::matmul(at::softmax(scores, -1), read["soft_embeddings.price.embedding_table.weight"]);
  nn::expect_close(read.hidden, at::embedding(read["embeddings.items.weight"], read.items) + mixed);
}

TEST(SessionFeatures, AreNormalisedOneByOne) {
  auto config = with_price();
  config.tabular_layer_norm = true;
  const ReadFeatures read(config);
  const auto normed = [&](const at::Tensor& x, const std::string& name) {
    return at::layer_norm(x, {8}, read["feature_layer_norm." + name + ".weight"],
                          read["feature_layer_norm." + name + ".bias"], config.layer_norm_epsilon);
  };
  const auto items = at::embedding(read["embeddings.items.weight"], read.items);
  const auto price =
      at::relu(at::linear(read.price.unsqueeze(-1), read["continuous_projection.weight"],
                          read["continuous_projection.bias"]));
  nn::expect_close(read.hidden, normed(items, "items") + normed(price, "continuous"));
}

TEST(SessionFeatures, DropoutIsOfEachFeature) {
  auto config = with_price();
  config.dropout = 0;
  config.input_dropout = 0.5;
  const ReadFeatures read(config, nn::Mode::Train);
  // An item's element and the number's are dropped apart: none, either or both.
  const auto items = 2 * at::embedding(read["embeddings.items.weight"], read.items);
  const auto price =
      2 * at::relu(at::linear(read.price.unsqueeze(-1), read["continuous_projection.weight"],
                              read["continuous_projection.bias"]));
  const auto is = [&](const at::Tensor& x) { return (read.hidden - x).abs() < 1e-5; };
  const auto zero = at::zeros_like(items);
  EXPECT_TRUE((is(zero) | is(items) | is(price) | is(items + price)).all().item<bool>());
  EXPECT_GT(is(items).logical_and(price != 0).sum().item<int64_t>(), 0);
  EXPECT_GT(is(zero).sum().item<int64_t>(), 0);
}

TEST(SessionFeatures, WidthsOfEmbeddings) {
  auto config = small_session({.ids = 30, .width = 8, .length = 6});
  config.features.push_back({"kind", true, 100});
  config.embedding_dims = {{"kind", 3}};
  EXPECT_EQ(config.dim_of(config.features[0]), 8);
  EXPECT_EQ(config.dim_of(config.features[1]), 3);
  config.infer_embedding_sizes = true;
  EXPECT_EQ(config.dim_of(config.features[0]), 5);  // 2 x 2.34
  config.embedding_dims = Json();
  EXPECT_EQ(config.dim_of(config.features[1]), 7);  // 2 x 3.16
  config.item_embedding_dim = 6;
  EXPECT_EQ(config.dim_of(config.features[0]), 6);
  EXPECT_EQ(make_session_model(config).front()->params()[0]->spec().shape[1], 6);
}

TEST(SessionFeatures, RefuseWhatIsNoWidth) {
  auto said = [](const Json& dims, const std::string& aggregation = "concat") {
    auto config = small_session({.ids = 30, .width = 8, .length = 6});
    config.embedding_dims = dims;
    config.aggregation = aggregation;
    try {
      config.check();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(said({{"items", 3}}), "");
  EXPECT_THAT(said({{"itms", 3}}), testing::HasSubstr("did you mean"));
  EXPECT_THAT(said({{"items", 0}}), testing::HasSubstr("has 0 for 'items'"));
  EXPECT_THAT(said("wide"), testing::HasSubstr("expected widths"));
  EXPECT_THAT(said({{"items", 3}}, "element-wise-sum"), testing::HasSubstr("got 3 of 'items'"));
}

TEST(SessionFeatures, ValuesOfAWholeSessionAreAtAllPositions) {
  auto config = with_price();
  config.features.push_back({"age", false, 0, /*is_list=*/false});
  config.features.push_back({"country", true, 4, /*is_list=*/false});
  config.stochastic_swap_noise = 0.5;
  config.swap_values = {{"items", at::tensor({5}, at::kLong)},
                        {"price", at::tensor({7.0F})},
                        {"age", at::tensor({7.0F})},
                        {"country", at::tensor({3}, at::kLong)}};
  const auto input = make_session_model(config).front();
  for (const auto& param : input->params()) {
    auto value = at::empty(param->spec().shape);
    nn::initialize(param->spec(), 1, value);
    param->bind_value(value);
  }
  const int64_t rows = 200;
  const nn::Bundle once{{"items", at::full({rows, 3}, 4, at::kLong)},
                        {"price", at::ones({rows, 3})},
                        {"age", at::linspace(0, 1, rows)},
                        {"country", at::arange(rows, at::kLong) % 3},
                        {"lengths", at::full({rows}, 3, at::kLong)}};
  auto lists = once;
  for (const char* name : {"age", "country"}) {
    lists[name] = once.at(name).unsqueeze(1).repeat({1, 3});
  }
  auto of_lists = config;
  for (auto& feature : of_lists.features) feature.is_list = true;
  const auto same = make_session_model(of_lists).front();
  for (size_t i = 0; i < same->params().size(); ++i) {
    same->params()[i]->bind_value(input->params()[i]->value());
  }
  at::NoGradGuard no_grad;
  auto context = rows_context(rows);
  context.mode = nn::Mode::Predict;
  const auto hidden = input->forward(once, context).at("hidden");
  EXPECT_TRUE(at::equal(hidden, same->forward(lists, context).at("hidden")));
  EXPECT_FALSE(at::equal(hidden[0], hidden[1]));
}

TEST(SessionFeatures, SwapNoiseReplacesAWholeSessionsValueAtAllPositions) {
  const auto ages = at::zeros({2000, 1}), real = at::ones({2000, 1}, at::kBool);
  const auto noisy = swap_noise(ages, real, at::ones({4}), 0.3, "age", rows_context(2000));
  EXPECT_NEAR(noisy.sum().item<double>() / 2000, 0.3, 4.5 * std::sqrt(0.3 * 0.7 / 2000));
}

}  // namespace
}  // namespace convoy::models
