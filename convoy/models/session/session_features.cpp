#include "convoy/models/session/session_features.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/models/session/swap_noise.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"

// Shapes: B rows, T positions, D = d_model.
namespace convoy::models {

using nn::Init;

namespace {

constexpr const char* kContinuous = "continuous";  // all of them as one feature
constexpr int64_t kDropoutSite = 16;               // of the first feature, behind the block's own

}  // namespace

std::string embedding_name(const std::string& feature) {
  return fmt::format("embeddings.{}.weight", feature);
}

std::string item_tower_name(const std::string& feature) {
  return fmt::format("item_tower.{}.weight", feature);
}

SessionFeatures::SessionFeatures(const SessionConfig& config, const std::string& name)
    : Block(name), config_(config) {
  std::sort(config_.features.begin(), config_.features.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const int64_t D = config.d_model;
  int64_t width = 0, num_continuous = 0;
  for (const auto& feature : config_.features) {
    if (is_number(feature)) {
      ++num_continuous;
    } else {
      width += declare_feature(feature);
    }
  }
  if (!config_.item_tower.empty()) {
    tower_ = std::make_shared<const ItemTower>(
        config_, item_table(), [this](nn::ParamSpec spec) { return declare(std::move(spec)); });
  }
  if (num_continuous > 0) {
    const int64_t dim = config.continuous_projection > 0 ? config.continuous_projection : D;
    continuous_ =
        declare_dense("continuous_projection", num_continuous, dim, config.initializer_range);
    declare_normed(kContinuous, dim);
    width += dim;
  }
  if (config.aggregation == "concat" && width != D) {
    projection_ = declare_dense("input_projection", width, D, config.initializer_range);
  }
}

SessionFeatures::SessionFeatures(const SessionFeatures& of, const std::string& name)
    : Block(name),
      config_(of.config_),
      tables_(of.tables_),
      tower_(of.tower_),
      soft_(of.soft_),
      vector_projections_(of.vector_projections_),
      norms_(of.norms_),
      continuous_(of.continuous_),
      projection_(of.projection_) {}

/// Declares a feature's parameters; returns the width of its vectors.
int64_t SessionFeatures::declare_feature(const SessionFeature& feature) {
  const auto init = Init::normal(config_.embedding_initializer_range);
  const auto& name = feature.name;
  int64_t dim = config_.dim_of(feature);
  if (feature.categorical) {
    nn::ParamSpec table{embedding_name(name), {feature.cardinality, dim}, init};
    table.cut = {0};
    table.read_in_backward = false;
    if (name == config_.item_feature) table.row_reads = config_.item_reads();
    table.trainable = !config_.frozen_embeddings.contains(name);
    tables_[name] = declare(std::move(table));
  } else if (feature.width > 0) {
    if (dim != feature.width) {
      vector_projections_[name] = declare_dense("vector_projections." + name, feature.width, dim,
                                                config_.initializer_range);
    }
  } else {
    dim = config_.soft_embedding_dim > 0 ? config_.soft_embedding_dim : config_.d_model;
    const auto prefix = "soft_embeddings." + name;
    const int64_t vectors = config_.soft_embedding_cardinality;
    soft_[name] = {declare_dense(prefix + ".projection_layer", 1, vectors, 1),
                   declare_matrix(prefix + ".embedding_table.weight", {vectors, dim}, init)};
  }
  declare_normed(name, dim);
  return dim;
}

void SessionFeatures::declare_normed(const std::string& feature, int64_t width) {
  if (!config_.tabular_layer_norm) return;
  norms_[feature] = declare_norm("feature_layer_norm." + feature, width);
}

at::Tensor SessionFeatures::rows_read(const nn::Param& table, const nn::Bundle& batch,
                                      const nn::Context& context) {
  internal_check(&table == item_table().get(), "models", "rows of {}", table.spec().name);
  const auto ids = column(batch, config_.item(), context).reshape({-1});
  return at::cat({ids, at::zeros({1}, ids.options())});  // padding may be added
}

at::Tensor SessionFeatures::joined(const nn::Bundle& in, const nn::TensorRanks& ranks,
                                   const nn::Context& context) const {
  at::Tensor item;
  std::vector<at::Tensor> parts, numbers;  // parts: in the features' order, without the item
  std::vector<at::Tensor> all;             // with it
  for (const auto& feature : config_.features) {
    const auto& name = feature.name;
    const auto values = column(in, feature, context);
    if (is_number(feature)) {
      numbers.push_back(values);
      continue;
    }
    all.push_back(regular(vectors_of(values, feature, ranks, context), name, std::ssize(all), ranks,
                          context));
    if (name == config_.item_feature) {
      item = all.back();
    } else {
      parts.push_back(all.back());
    }
  }
  if (!numbers.empty()) {
    const auto projected =
        at::relu(nn::linear(ranks.own(at::stack(numbers, 2)), continuous_)).to(at::kFloat);
    all.push_back(regular(projected, kContinuous, std::ssize(all), ranks, context));
    parts.push_back(all.back());
  }
  if (config_.aggregation == "concat") {
    auto x = all.size() > 1 ? at::cat(all, -1) : all[0];
    return projection_.weight ? nn::linear(x, projection_).to(at::kFloat) : x;
  }
  if (parts.empty()) return item;
  auto sum = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
  return config_.aggregation == "element-wise-sum" ? item + sum : item * sum;
}

at::Tensor SessionFeatures::vectors_of(const at::Tensor& values, const SessionFeature& feature,
                                       const nn::TensorRanks& ranks,
                                       const nn::Context& context) const {
  const auto& name = feature.name;
  if (tower_ && name == config_.item_feature) return tower_->rows(values, context);
  if (feature.categorical) return nn::embedding(values, tables_.at(name), true, ranks);
  if (feature.width == 0) return soft(values, soft_.at(name), ranks);
  const auto own = ranks.own(values);
  const auto projection = vector_projections_.find(name);
  return projection == vector_projections_.end()
             ? own
             : nn::linear(own, projection->second).to(at::kFloat);
}

at::Tensor SessionFeatures::column(const nn::Bundle& in, const SessionFeature& feature,
                                   const nn::Context& context) const {
  const auto& ids = in.at(config_.item_feature);
  const auto& given = in.at(feature.name);
  if (feature.width > 0) {
    return feature.is_list ? given
                           : given.unsqueeze(1).expand({ids.size(0), ids.size(1), feature.width});
  }
  const auto noisy =
      with_noise(feature.is_list ? given : given.unsqueeze(1), ids, feature, context);
  return feature.is_list ? noisy : noisy.expand_as(ids);
}

at::Tensor SessionFeatures::with_noise(const at::Tensor& given, const at::Tensor& ids,
                                       const SessionFeature& feature,
                                       const nn::Context& context) const {
  const double rate = config_.stochastic_swap_noise;
  if (rate == 0 || context.mode != nn::Mode::Train) return given;
  const auto values = config_.swap_values.find(feature.name);
  internal_check(values != config_.swap_values.end(), "models",
                 "no values to swap those of {} with", feature.name);
  const auto real = feature.is_list ? ids != 0 : (ids != 0).any(1, /*keepdim=*/true);
  return swap_noise(given, real, values->second, rate, feature.name, context);
}

at::Tensor SessionFeatures::soft(const at::Tensor& numbers, const Soft& embedding,
                                 const nn::TensorRanks& ranks) const {
  const auto scores = nn::linear(ranks.own(numbers.unsqueeze(-1)), embedding.weights);
  const auto weights = at::softmax(scores.to(at::kFloat), -1);
  return nn::linear(weights, embedding.table, nullptr, /*in_first=*/true).to(at::kFloat);
}

at::Tensor SessionFeatures::regular(const at::Tensor& vectors, const std::string& feature,
                                    int64_t index, const nn::TensorRanks& ranks,
                                    const nn::Context& context) const {
  const auto norm = norms_.find(feature);
  const auto normed = norm == norms_.end()
                          ? vectors
                          : nn::layer_norm(vectors, norm->second, config_.layer_norm_epsilon);
  return nn::dropout(normed, config_.input_dropout, context, kDropoutSite + index, ranks);
}

}  // namespace convoy::models
