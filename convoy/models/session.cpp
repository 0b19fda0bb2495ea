#include "convoy/models/session.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/nn/cross_entropy.h"
#include "convoy/nn/dropout.h"
#include "convoy/nn/layers.h"

// Shapes: B rows, T positions, D = n_embd, V = number of item ids with padding, N = targets.
namespace convoy::models {

namespace {

using nn::Init;
using nn::Mode;
using nn::ParamPtr;

class SessionInput : public nn::Block {
 public:
  explicit SessionInput(const SessionConfig& config) : Block("input"), config_(config) {
    std::sort(config_.features.begin(), config_.features.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    const int64_t D = config.body.n_embd;
    int64_t width = 0, num_continuous = 0;
    for (const auto& feature : config_.features) {
      if (feature.categorical) {
        int64_t dim = feature.dim > 0 ? feature.dim : D;
        tables_[feature.name] = declare({fmt::format("embeddings.{}.weight", feature.name),
                                         {feature.cardinality, dim},
                                         Init::normal(config.body.initializer_range)});
        width += dim;
      } else {
        ++num_continuous;
      }
    }
    if (num_continuous > 0) {
      int64_t dim = config.continuous_projection > 0 ? config.continuous_projection : D;
      continuous_ = dense("continuous_projection", num_continuous, dim);
      width += dim;
    }
    if (config.aggregation == "concat" && width != D) {
      projection_ = dense("input_projection", width, D);
    }
    positions_ = declare({"transformer.wpe.weight",
                          {config.body.n_positions, D},
                          Init::normal(config.body.initializer_range)});
  }

  const ParamPtr& item_table() const { return tables_.at(config_.item_feature); }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    std::vector<at::Tensor> parts, numbers;
    for (const auto& feature : config_.features) {
      const auto& column = in.at(feature.name);
      if (feature.categorical) {
        parts.push_back(nn::embedding(column, tables_.at(feature.name), true));
      } else {
        numbers.push_back(column);
      }
    }
    if (!numbers.empty()) {
      parts.push_back(at::relu(apply(continuous_, at::stack(numbers, 2))).to(at::kFloat));
    }
    auto x = parts[0];
    if (config_.aggregation == "sum") {
      for (size_t i = 1; i < parts.size(); ++i) x = x + parts[i];
    } else if (parts.size() > 1) {
      x = at::cat(parts, 2);
    }
    if (projection_.weight) x = apply(projection_, x).to(at::kFloat);
    x = nn::dropout(nn::add_positions(x, positions_), config_.body.embd_pdrop, context, 0);
    return {
        {"hidden", x}, {"item_ids", in.at(config_.item_feature)}, {"lengths", in.at("lengths")}};
  }

 private:
  struct Dense {
    ParamPtr weight, bias;
  };

  Dense dense(const std::string& name, int64_t in, int64_t out) {
    auto weight =
        declare({name + ".weight", {out, in}, Init::normal(config_.body.initializer_range)});
    nn::ParamSpec bias{name + ".bias", {out}, Init::zeros()};
    bias.decay = false;
    return {weight, declare(std::move(bias))};
  }

  static at::Tensor apply(const Dense& layer, const at::Tensor& x) {
    return nn::linear(x, layer.weight, layer.bias, false);
  }

  SessionConfig config_;
  std::map<std::string, ParamPtr> tables_;
  Dense continuous_, projection_;
  ParamPtr positions_;
};

class SessionHead : public nn::Block {
 public:
  SessionHead(const SessionConfig& config, const ParamPtr& item_table)
      : Block("head"), config_(config) {
    const int64_t D = config.body.n_embd;
    nn::ParamSpec weight{"transformer.ln_f.weight", {D}, Init::ones()};
    nn::ParamSpec bias{"transformer.ln_f.bias", {D}, Init::zeros()};
    weight.decay = bias.decay = false;
    norm_weight_ = declare(std::move(weight));
    norm_bias_ = declare(std::move(bias));
    const int64_t item_dim = item_table->spec().shape[1];
    if (item_dim != D) {
      output_projection_ = declare(
          {"output_projection.weight", {item_dim, D}, Init::normal(config.body.initializer_range)});
    }
    items_ = tie(item_table);
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& x = in.at("hidden");
    const auto& ids = in.at("item_ids");
    const int64_t T = ids.size(1);
    // Up to the last item: a row may end in padding.
    auto lengths = ((ids != 0) * at::arange(1, T + 1, ids.options())).amax(1);
    auto row_start = at::arange(ids.size(0), ids.options()) * T;
    if (context.mode == Mode::Predict) {
      auto last = row_start + (lengths - 1).clamp_min(0);
      return {{"scores", nn::tied_scores(states(x, last), items_, config_.temperature)}};
    }
    at::Tensor at_position;  // flat positions whose successor is the target
    if (context.mode == Mode::Train) {
      auto is_target = at::zeros_like(ids, ids.options().dtype(at::kBool));
      if (T > 1) is_target.narrow(1, 0, T - 1).copy_(ids.narrow(1, 1, T - 1) != 0);
      at_position = is_target.view({-1}).nonzero().squeeze(1);
    } else {
      auto has_target = (lengths > 1).nonzero().squeeze(1);
      at_position = (row_start + lengths - 2).index_select(0, has_target);
    }
    auto targets = ids.reshape({-1}).index_select(0, at_position + 1);
    auto h = states(x, at_position);
    auto loss = nn::tied_cross_entropy(h, items_, targets, config_.temperature);
    nn::Bundle out{{"loss", loss}, {"count", at::scalar_tensor(targets.numel(), at::kLong)}};
    if (context.mode == Mode::Evaluate) {
      auto scores = nn::tied_scores(h, items_, config_.temperature);
      auto own = scores.gather(1, (targets - 1).unsqueeze(1));
      // Equal scores rank by id. Not (scores > own): a score that is no number must not look like a
      // hit.
      auto better = (scores <= own).logical_not();
      auto columns = at::arange(scores.size(1), targets.options());
      auto before = (scores == own).logical_and_(columns < (targets - 1).unsqueeze(1));
      auto own_is_nan = own.isnan().sum(1);
      out["target_rank"] = better.sum(1) + before.sum(1) + 1 - own_is_nan;
    }
    return out;
  }

 private:
  at::Tensor states(const at::Tensor& x, const at::Tensor& at_position) const {
    auto picked = x.reshape({-1, x.size(-1)}).index_select(0, at_position);
    auto h = nn::layer_norm(picked, norm_weight_, norm_bias_, config_.body.layer_norm_epsilon);
    return output_projection_ ? nn::linear(h, output_projection_, nullptr, false) : h;
  }

  SessionConfig config_;
  ParamPtr norm_weight_, norm_bias_, output_projection_, items_;
};

}  // namespace

const SessionFeature& SessionConfig::item() const {
  for (const auto& feature : features) {
    if (feature.name == item_feature) return feature;
  }
  fail<UsageError>("models", "the item feature '{}' is not among the model's features",
                   item_feature);
}

void SessionConfig::check() const {
  body.check();
  if (!item().categorical) {
    fail<UsageError>("models", "the item feature '{}' is continuous; expected categorical",
                     item_feature);
  }
  if (item().cardinality < 2) {
    fail<UsageError>("models",
                     "the item feature '{}' has {} ids; expected at least one besides "
                     "padding",
                     item_feature, item().cardinality);
  }
  if (aggregation != "concat" && aggregation != "sum") {
    fail<UsageError>("models", "aggregation '{}' is unknown; expected concat or sum", aggregation);
  }
  if (aggregation == "sum") {
    for (const auto& feature : features) {
      if (feature.categorical && feature.dim > 0 && feature.dim != body.n_embd) {
        fail<UsageError>("models",
                         "aggregation = sum needs every feature as wide as d_model = {};"
                         " got {} with {}; try aggregation = concat",
                         body.n_embd, feature.name, feature.dim);
      }
    }
  }
}

nn::BlockList make_session_model(const SessionConfig& config) {
  config.check();
  auto input = std::make_shared<SessionInput>(config);
  nn::BlockList blocks{input};
  for (int64_t i = 0; i < config.body.n_layer; ++i) {
    blocks.push_back(make_gpt2_layer(config.body, "transformer", i));
  }
  blocks.push_back(std::make_shared<SessionHead>(config, input->item_table()));
  return blocks;
}

}  // namespace convoy::models
