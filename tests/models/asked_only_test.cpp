#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "convoy/models/bert/bert.h"
#include "convoy/models/xlnet/xlnet.h"
#include "convoy/nn/param.h"
#include "tests/models/testing.h"
#include "tests/nn/testing.h"

// A last layer that computes only the states that are asked for gives what a whole one gives there.
namespace convoy::models {
namespace {

constexpr int64_t kRows = 3, kLength = 7, kWidth = 8;

/// Some in each row, none in the second.
at::Tensor asked() {
  return at::tensor({0, 2, 6, 14, 19}, at::kLong);
}

nn::Bundle bundle_of(bool two_streams) {
  at::manual_seed(5);
  nn::Bundle in{{"hidden", at::randn({kRows, kLength, kWidth})},
                {"item_ids", at::ones({kRows, kLength}, at::kLong)},
                {"key_mask", at::ones({kRows, kLength}, at::kBool)},
                {"asked", asked()}};
  in["key_mask"][1].slice(0, 4).fill_(false);
  if (!two_streams) return in;
  in.erase("key_mask");
  in["query"] = at::randn({kRows, kLength, kWidth});
  in["visible"] = at::ones({kRows, kLength, kLength}, at::kBool).tril(-1);
  return in;
}

/// What a block gives, and the gradients of its parameters and inputs.
struct Result {
  at::Tensor states;
  std::map<std::string, at::Tensor> grads;
};

Result run(const nn::BlockPtr& block, nn::Bundle in, const std::string& stream) {
  for (const auto& param : block->params()) {
    auto value = at::empty(param->spec().shape);
    nn::initialize(param->spec(), 1, value);
    param->bind_value(value);
    param->bind_grad(at::zeros_like(value));
  }
  nn::Context context;
  context.mode = nn::Mode::Train;
  context.samples = at::arange(kRows, at::kLong) + 11;
  Result out;
  std::map<std::string, at::Tensor> inputs;
  for (const char* name : {"hidden", "query"}) {
    if (in.contains(name)) inputs[name] = in[name].requires_grad_(true);
  }
  out.states = block->forward(in, context).at(stream);
  // Of what is read alone: gradients of the others' states are zero.
  const auto read = out.states.reshape({-1, kWidth}).index_select(0, asked());
  nn::backward((read * at::arange(read.numel()).view(read.sizes()).sin()).sum());
  for (const auto& param : block->params()) out.grads[param->spec().name] = param->grad();
  for (const auto& [name, tensor] : inputs) {
    out.grads[name] = tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor);
  }
  out.states = out.states.detach();
  return out;
}

void expect_same(const Result& some, const Result& whole) {
  const auto at = [](const Result& result) {
    return result.states.reshape({-1, kWidth}).index_select(0, asked());
  };
  nn::expect_close(at(some), at(whole));
  auto others = some.states.clone().view({-1, kWidth});
  others.index_fill_(0, asked(), 0);
  EXPECT_EQ(others.abs().max().item<float>(), 0);
  ASSERT_EQ(some.grads.size(), whole.grads.size());
  for (const auto& [name, grad] : whole.grads) {
    SCOPED_TRACE(name);
    nn::expect_close(some.grads.at(name), grad);
    EXPECT_GT(grad.abs().max().item<float>(), 0);
  }
}

BertConfig bert() {
  BertConfig config;
  config.hidden_size = kWidth;
  config.intermediate_size = 3 * kWidth;
  config.num_attention_heads = 2;
  config.attention_probs_dropout_prob = 0.2;
  config.hidden_dropout_prob = 0.3;
  config.max_position_embeddings = 16;
  return config;
}

XlnetConfig xlnet() {
  XlnetConfig config;
  config.d_model = kWidth;
  config.n_layer = config.n_head = 2;
  config.d_inner = 3 * kWidth;
  config.dropout = 0.2;
  config.max_length = 16;
  return config;
}

TEST(AskedOnly, BertLayerGivesTheStatesOfAWholeLayer) {
  const auto whole = run(make_bert_layer(bert(), "bert", 1), bundle_of(false), "hidden");
  const auto some = make_bert_layer(bert(), "bert", 1, Gives::Asked);
  expect_same(run(some, bundle_of(false), "hidden"), whole);
  EXPECT_NE(some->cost_key(), make_bert_layer(bert(), "bert", 1)->cost_key());
  // Where none or all are asked for, or nobody says which, it is a whole layer.
  auto in = bundle_of(false);
  in.erase("asked");
  EXPECT_TRUE(at::equal(run(some, in, "hidden").states, whole.states));
  for (const int64_t count : {int64_t{0}, kRows * kLength}) {
    in["asked"] = at::arange(count, at::kLong);
    EXPECT_TRUE(at::equal(run(some, in, "hidden").states, whole.states)) << count;
  }
}

TEST(AskedOnly, AlbertSkipsPositionsInTheLastLayerAlone) {
  const auto layers = make_albert_layers(bert(), "albert", 2, Gives::Asked);
  EXPECT_GT(run(layers[0], bundle_of(false), "hidden").states.abs().amin().item<float>(), 0);
  EXPECT_EQ(layers[1]->cost_key(), make_bert_layer(bert(), "bert", 1, Gives::Asked)->cost_key());
}

TEST(AskedOnly, XlnetLayerGivesTheStatesOfAWholeLayer) {
  const auto config = xlnet();
  for (const bool two_streams : {false, true}) {
    const char* stream = two_streams ? "query" : "hidden";
    const auto in = [&] {
      auto out = bundle_of(two_streams);
      put_xlnet_guides(out, false);
      return out;
    };
    const auto whole = run(make_xlnet_layer(config, "x", 1), in(), stream);
    expect_same(run(make_xlnet_layer(config, "x", 1, /*asked_only=*/true), in(), stream), whole);
  }
}

TEST(AskedOnly, EarlierXlnetLayersSkipQueriesAlone) {
  const auto config = xlnet();
  const auto in = [] {
    auto out = bundle_of(true);
    put_xlnet_guides(out, false);
    return out;
  };
  const auto whole = make_xlnet_layer(config, "x", 0);
  const auto some = make_xlnet_layer(config, "x", 0, /*asked_only=*/true);
  expect_same(run(some, in(), "query"), run(whole, in(), "query"));
  EXPECT_TRUE(at::equal(run(some, in(), "hidden").states, run(whole, in(), "hidden").states));
}

/// Last layer of a session body. It computes all positions where the model predicts columns of
/// whole sessions.
nn::BlockPtr last_layer(const std::string& body, bool asked_only) {
  auto config = small_session({.ids = 9, .width = kWidth, .heads = 2, .layers = 2, .length = 16});
  config.body = body;
  config.n_inner = 3 * kWidth;
  if (!asked_only) config.targets = {{"bought"}};
  return session_body(body).layers(config).back();
}

at::Tensor states_of(const nn::BlockPtr& block, nn::Mode mode, bool names_asked = true) {
  const at::NoGradGuard no_grad;
  for (const auto& param : block->params()) {
    auto value = at::empty(param->spec().shape);
    nn::initialize(param->spec(), 1, value);
    param->bind_value(value);
  }
  auto in = bundle_of(false);
  in["time_buckets"] = at::arange(kLength).view({1, 1, kLength}).repeat({kRows, kLength, 1});
  if (!names_asked) in.erase("asked");
  nn::Context context;
  context.mode = mode;
  context.samples = at::arange(kRows, at::kLong) + 11;
  return block->forward(in, context).at("hidden").reshape({-1, kWidth});
}

TEST(AskedOnly, CausalLayersSkipPositionsExceptInTraining) {
  const std::vector<std::string> clm{"clm"};
  for (const auto& name : bodies_that_learn_by("clm")) {
    if (session_body(name).maskings != clm) continue;
    SCOPED_TRACE(name);
    const auto make = [&](bool asked_only) { return last_layer(name, asked_only); };
    for (const auto mode : {nn::Mode::Evaluate, nn::Mode::Predict}) {
      const auto whole = states_of(make(false), mode), some = states_of(make(true), mode);
      nn::expect_close(some.index_select(0, asked()), whole.index_select(0, asked()));
      EXPECT_EQ(some.clone().index_fill_(0, asked(), 0).abs().max().item<float>(), 0);
      EXPECT_TRUE(at::equal(states_of(make(true), mode, /*names_asked=*/false), whole));
    }
    EXPECT_TRUE(
        at::equal(states_of(make(true), nn::Mode::Train), states_of(make(false), nn::Mode::Train)));
    EXPECT_EQ(make(true)->cost_key(), make(false)->cost_key()) << "in training";
  }
}

}  // namespace
}  // namespace convoy::models
