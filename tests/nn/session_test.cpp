#include "convoy/models/session/session.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/models/testing.h"
#include "tests/nn/testing.h"

namespace convoy::models {
namespace {

SessionConfig config_of(const std::string& body, const std::string& aggregation = "concat") {
  auto config = small_session({.ids = 30, .width = 8, .length = 6});
  config.features.push_back({"kind", true, 5});
  config.features.push_back({"price", false, 0});
  config.aggregation = aggregation;
  config.time_feature = "time";
  config.body = body.substr(0, body.find(' '));
  if (body != config.body) config.masking = body.substr(config.body.size() + 1);
  return config;
}

/// A model with memory of its own, ready to run.
class Model {
 public:
  explicit Model(const SessionConfig& config) : blocks_(make_session_model(config)) {
    for (auto& block : blocks_) {
      for (auto& param : block->params()) {
        auto value = at::empty(param->spec().shape);
        nn::initialize(param->spec(), 1, value);
        param->bind_value(value);
        params_[param->spec().name] = value;
      }
    }
  }

  nn::Bundle run(nn::Bundle bundle, nn::Mode mode, const nn::Bundle* loaded = nullptr,
                 int64_t first_sample = 0) const {
    at::NoGradGuard no_grad;
    nn::Context context;
    context.mode = mode;
    context.loaded = loaded;
    context.samples = at::arange(bundle.at("items").size(0), at::kLong) + first_sample;
    for (const auto& block : blocks_) bundle = block->forward(bundle, context);
    return bundle;
  }

  /// What the head reads, [B, T, D].
  at::Tensor states(nn::Bundle bundle, nn::Mode mode) const {
    at::NoGradGuard no_grad;
    nn::Context context;
    context.mode = mode;
    context.samples = at::arange(bundle.at("items").size(0), at::kLong);
    for (const auto& block : blocks_) {
      if (block != blocks_.back()) bundle = block->forward(bundle, context);
    }
    return bundle.at("hidden");
  }

  std::map<std::string, at::Tensor> params_;

 private:
  nn::BlockList blocks_;
};

/// Seconds of events at which others follow after a while that their ids tell.
at::Tensor times_of(const at::Tensor& ids) {
  return at::where(ids != 0, 1700000000 + (ids * ids * 40).cumsum(1), 0);
}

nn::Bundle columns(const std::vector<std::vector<int64_t>>& sessions) {
  size_t longest = 1;
  for (const auto& items : sessions) longest = std::max(longest, items.size());
  const auto rows = static_cast<int64_t>(sessions.size()), T = static_cast<int64_t>(longest);
  auto ids = at::zeros({rows, T}, at::kLong), lengths = at::zeros({rows}, at::kLong);
  for (int64_t i = 0; i < rows; ++i) {
    const auto& items = sessions[static_cast<size_t>(i)];
    lengths[i] = static_cast<int64_t>(items.size());
    for (size_t t = 0; t < items.size(); ++t) ids[i][static_cast<int64_t>(t)] = items[t];
  }
  return {{"items", ids},
          {"kind", ids % 5},
          {"price", ids * 0.1},
          {"time", times_of(ids)},
          {"lengths", lengths}};
}

class EachSessionBody : public testing::TestWithParam<std::string> {};

TEST_P(EachSessionBody, EvaluationRanksAsPredictionWithoutTheLastItem) {
  const Model model(config_of(GetParam()));
  const auto whole = model.run(columns({{3, 9, 4}, {7, 2, 11, 12, 5, 1}, {8}}), nn::Mode::Evaluate);
  auto without = columns({{3, 9}, {7, 2, 11, 12, 5}});
  const auto times = columns({{3, 9, 4}, {7, 2, 11, 12, 5, 1}}).at("time");
  without[kRequestTime] = at::stack({times[0][2], times[1][5]});
  const auto cut = model.run(without, nn::Mode::Predict);
  ASSERT_EQ(whole.at("target_rank").numel(), 2) << "a session of one has no target";
  const std::vector<int64_t> target{4, 1};
  for (int64_t row = 0; row < 2; ++row) {
    const auto scores = cut.at("scores")[row];
    const auto own = scores[target[static_cast<size_t>(row)] - 1];
    EXPECT_EQ(whole.at("target_rank")[row].item<int64_t>(),
              1 + (scores > own).sum().item<int64_t>());
  }
}

TEST_P(EachSessionBody, PaddingIsNotLookedAt) {
  const Model model(config_of(GetParam()));
  const auto alone = model.run(columns({{3, 9, 4}}), nn::Mode::Predict).at("scores")[0];
  const auto beside = model.run(columns({{3, 9, 4}, {7, 2, 11, 12, 5, 1}}), nn::Mode::Predict);
  nn::expect_close(beside.at("scores")[0], alone);
}

TEST_P(EachSessionBody, TargetsAreFoundWhereTheBatchWasLoaded) {
  auto config = config_of(GetParam());
  config.attend_padding = config.masks_items() && !config.permutes();
  const Model model(config);
  const auto batch = columns({{3, 9, 4}, {7, 2, 11, 12, 5}, {6}});
  for (auto mode : {nn::Mode::Train, nn::Mode::Evaluate, nn::Mode::Predict}) {
    const auto plain = model.run(batch, mode), same = model.run(batch, mode, &batch);
    for (const auto& [name, tensor] : plain) EXPECT_TRUE(at::equal(same.at(name), tensor)) << name;
  }
  const auto fewer = columns({{3, 9, 0}, {7, 2, 0, 0, 0}, {6}});
  const auto loss = model.run(batch, nn::Mode::Train).at("loss");
  EXPECT_FALSE(at::equal(model.run(batch, nn::Mode::Train, &fewer).at("loss"), loss));
}

TEST(Session, AttendedPaddingDoesNotDependOnTheBatch) {
  auto config = config_of("bert");
  config.attend_padding = true;
  const Model model(config);
  const auto alone = model.run(columns({{3, 9, 4}}), nn::Mode::Predict).at("scores")[0];
  ASSERT_EQ(config.prediction_length(), 5);
  const auto beside = model.run(columns({{3, 9, 4}, {7, 2, 11, 12, 5}}), nn::Mode::Predict);
  nn::expect_close(beside.at("scores")[0], alone);
}

// Where padding is attended to, too: as many positions are there, and none is one more.
TEST(Session, AttendedPaddingIsAsMuchInEvaluationAndPrediction) {
  for (const char* body : {"bert", "albert", "electra"}) {
    auto config = config_of(body);
    config.attend_padding = true;
    const Model model(config);
    const auto whole = model.run(columns({{3, 9, 4}}), nn::Mode::Evaluate);
    const auto scores = model.run(columns({{3, 9}}), nn::Mode::Predict).at("scores")[0];
    const auto loss = at::logsumexp(scores, 0) - scores[4 - 1];
    nn::expect_close(whole.at("loss").reshape({}), loss);
  }
}

TEST_P(EachSessionBody, OddSessionsGiveNumbers) {
  const Model model(config_of(GetParam()));
  for (auto mode : {nn::Mode::Train, nn::Mode::Evaluate}) {
    const auto out = model.run(columns({{}, {6}, {1, 1, 1, 1}}), mode);
    EXPECT_TRUE(out.at("loss").isfinite().item<bool>());
    EXPECT_GT(out.at("count").item<int64_t>(), 0);
  }
  const auto scores = model.run(columns({{}, {6}}), nn::Mode::Predict).at("scores");
  EXPECT_EQ(scores.sizes(), (std::vector<int64_t>{2, 29}));
  EXPECT_TRUE(scores.isfinite().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Bodies, EachSessionBody, testing::ValuesIn(bodies_and_maskings()));

TEST(Session, HstuAsksHowLongAgoEventsWereFromWhatComesNext) {
  auto config = config_of("hstu");
  config.initializer_range = 0.5;
  config.eval_time = "target";
  const auto batch = columns({{3, 9, 4, 17}});
  auto request = columns({{3, 9, 4}});
  request[kRequestTime] = batch.at("time").select(1, 3);
  for (const char* kind : {"next", "own"}) {
    config.hstu_time = kind;
    const Model model(config);
    const bool next = config.hstu_time == "next";
    const auto asked = model.run(batch, nn::Mode::Evaluate);
    const auto said = model.run(request, nn::Mode::Predict).at("scores")[0];
    EXPECT_EQ(asked.at("target_rank")[0].item<int64_t>(),
              1 + (said > said[16]).sum().item<int64_t>());
    auto later = request;
    later[kRequestTime] = request.at(kRequestTime) + 86400 * 30;
    EXPECT_EQ(at::equal(model.run(later, nn::Mode::Predict).at("scores")[0], said), !next);
    auto shifted = batch;  // only differences count
    shifted["time"] = batch.at("time") + 1000;
    EXPECT_TRUE(at::equal(model.run(shifted, nn::Mode::Evaluate).at("loss"), asked.at("loss")));
  }
  config.time_feature = "";
  EXPECT_THROW(make_session_model(config), UsageError);
}

// An evaluation knows no more than serving does, unless it is told to.
TEST(Session, HstuIsEvaluatedAtTheTimeOfTheLastEvent) {
  auto config = config_of("hstu");
  config.initializer_range = 0.5;
  const auto batch = columns({{3, 9, 4, 17}});
  auto later = batch;
  later["time"] = batch.at("time").clone();
  later["time"].select(1, 3).add_(86400 * 30);
  const auto loss = [&](const nn::Bundle& of, nn::Mode mode) {
    return Model(config).run(of, mode).at("loss");
  };
  const auto evaluate = nn::Mode::Evaluate;
  EXPECT_TRUE(at::equal(loss(later, evaluate), loss(batch, evaluate)));
  const auto said = Model(config).run(columns({{3, 9, 4}}), nn::Mode::Predict).at("scores")[0];
  EXPECT_EQ(Model(config).run(batch, evaluate).at("target_rank")[0].item<int64_t>(),
            1 + (said > said[16]).sum().item<int64_t>());
  const auto trained = loss(batch, nn::Mode::Train);
  config.eval_time = "target";
  EXPECT_FALSE(at::equal(loss(later, evaluate), loss(batch, evaluate)));
  EXPECT_TRUE(at::equal(loss(batch, nn::Mode::Train), trained));
}

// What is drawn depends on the session's sample, not on what else is in the batch.
TEST(Session, ReplacedItemsDoNotDependOnTheBatch) {
  auto config = config_of("electra rtd");
  config.mlm_probability = 0.5;
  config.dropout = 0;
  config.embedding_initializer_range = 1;
  const Model model(config);
  const std::vector<std::vector<int64_t>> sessions{
      {3, 9, 4, 21}, {7, 2, 11, 12, 5, 1}, {8, 6}, {13, 14, 15, 16, 17}};
  double sum = 0;
  for (size_t i = 0; i < sessions.size(); ++i) {
    sum += model.run(columns({sessions[i]}), nn::Mode::Train, nullptr, static_cast<int64_t>(i))
               .at("loss")
               .item<double>();
  }
  const auto together = model.run(columns(sessions), nn::Mode::Train).at("loss").item<double>();
  EXPECT_NEAR(together / sum, 1, 1e-5);
  const auto others = model.run(columns(sessions), nn::Mode::Train, nullptr, 4);
  EXPECT_GT(std::abs(others.at("loss").item<double>() / sum - 1), 1e-3) << "other draws";
}

TEST(Session, GeneratorAloneIsEvaluated) {
  const auto batch = columns({{3, 9, 4}, {7, 2, 11, 12, 5, 1}, {8}});
  auto config = config_of("electra rtd");
  const Model model(config);
  const auto before = model.run(batch, nn::Mode::Evaluate);
  const double trained = model.run(batch, nn::Mode::Train).at("loss").item<double>();
  for (const auto& [name, value] : model.params_) {
    if (name.starts_with("discriminator")) value.fill_(0.1);
  }
  EXPECT_NE(model.run(batch, nn::Mode::Train).at("loss").item<double>(), trained);
  const auto after = model.run(batch, nn::Mode::Evaluate);
  EXPECT_TRUE(at::equal(before.at("loss"), after.at("loss")));
  EXPECT_TRUE(at::equal(before.at("target_rank"), after.at("target_rank")));
}

TEST(Session, ElementWiseAggregations) {
  // Without layers, and with ids that differ in one feature, the join shows in the scores.
  auto hidden = [](const std::string& aggregation) {
    auto config = config_of("gpt2", aggregation);
    config.n_layer = 0;
    Model model(config);
    auto table = [&](const char* name) { return model.params_.at(name); };
    auto item = table("embeddings.items.weight")[9], kind = table("embeddings.kind.weight")[4];
    auto price = at::relu(table("continuous_projection.weight").select(1, 0) * 0.9f +
                          table("continuous_projection.bias"));
    auto joined = aggregation == "element-wise-sum" ? item + kind + price : item * (kind + price);
    auto x = (joined + table("transformer.wpe.weight")[0]).unsqueeze(0);
    auto h = at::layer_norm(x, {8}, table("transformer.ln_f.weight"),
                            table("transformer.ln_f.bias"), config.layer_norm_epsilon);
    auto expected = at::mm(h, table("embeddings.items.weight").slice(0, 1).t());
    nn::expect_close(model.run(columns({{9}}), nn::Mode::Predict).at("scores"), expected);
  };
  hidden("element-wise-sum");
  hidden("element-wise-sum-item-multi");
}

// A table of vectors that nobody trains, and the vectors themselves in the data.
TEST(Session, VectorsOfTheDataAreWhatAFrozenEmbeddingReads) {
  const auto batch = columns({{3, 9, 4}, {7, 2, 11, 12, 5, 1}, {8}});
  for (const char* body : {"gpt2", "bert", "xlnet plm"}) {
    for (const bool of_items : {true, false}) {
      auto config = config_of(body);
      config.features = {{"items", true, 30}, {"kind", true, 5, of_items}};
      config.embedding_dims = {{"kind", 3}};
      config.tabular_layer_norm = true;
      auto from_table = batch;
      if (!of_items) from_table["kind"] = at::tensor({3, 1, 4}, at::kLong);
      const Model table(config);
      auto vectors = batch;
      const auto& rows = table.params_.at("embeddings.kind.weight");
      vectors["kind"] = rows.index({from_table.at("kind")});
      config.features[1] = {"kind", false, 0, of_items, /*width=*/3};
      config.embedding_dims = {};
      const Model read(config);
      for (auto mode : {nn::Mode::Train, nn::Mode::Evaluate, nn::Mode::Predict}) {
        const auto expected = table.run(from_table, mode), got = read.run(vectors, mode);
        for (const char* name : {"loss", "scores"}) {
          if (!expected.contains(name)) continue;
          EXPECT_TRUE(at::equal(got.at(name), expected.at(name))) << body << " " << name;
        }
      }
    }
  }
}

TEST(Session, VectorsAreProjectedWhereThatIsAskedFor) {
  auto config = config_of("gpt2", "element-wise-sum");
  config.features = {{"items", true, 30}, {"picture", false, 0, true, /*width=*/3}};
  try {
    make_session_model(config);
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_NE(
        std::string(error.what()).find("got 3 of 'picture'; try embedding_dims = {\"picture\": 8}"),
        std::string::npos)
        << error.what();
  }
  config.embedding_dims = {{"picture", 8}};
  const Model model(config);
  EXPECT_EQ(model.params_.at("vector_projections.picture.weight").sizes(),
            (std::vector<int64_t>{8, 3}));
  auto batch = columns({{3, 9, 4}});
  batch["picture"] = at::ones({1, 3, 3});
  const auto before = model.run(batch, nn::Mode::Predict).at("scores");
  batch["picture"][0][2][1] = 5;
  EXPECT_FALSE(at::equal(model.run(batch, nn::Mode::Predict).at("scores"), before));
}

TEST(Session, ClmStatesDoNotDependOnLaterItems) {
  for (const auto& body : bodies_by("clm")) {
    const Model model(config_of(body));
    const auto batch = columns({{7, 2, 11, 12, 5, 1}});
    auto other = columns({{7, 2, 11, 12, 9, 1}});
    other["time"] = batch.at("time");
    for (auto mode : {nn::Mode::Train, nn::Mode::Evaluate}) {
      const auto before = model.states(batch, mode), after = model.states(other, mode);
      EXPECT_TRUE(at::equal(before.narrow(1, 0, 4), after.narrow(1, 0, 4))) << body;
      EXPECT_FALSE(at::equal(before.select(1, 4), after.select(1, 4))) << body;
    }
  }
}

// As Transformers4Rec's XLNet under clm. Hidden are the last item in training, and in evaluation
// the last of max_length.
TEST(Session, BidirectionalStatesDependOnLaterItems) {
  auto config = config_of("xlnet clm");
  config.attn_type = "bi";
  for (const bool attend : {false, true}) {
    config.attend_padding = attend;
    const Model model(config);
    const auto differ = [&](std::vector<int64_t> items, size_t place, nn::Mode mode) {
      const auto before = model.states(columns({items}), mode)[0][0];
      items[place] += 5;
      return !at::equal(before, model.states(columns({items}), mode)[0][0]);
    };
    const std::vector<int64_t> five{7, 2, 11, 12, 5}, six{7, 2, 11, 12, 5, 1};
    for (auto mode : {nn::Mode::Train, nn::Mode::Evaluate, nn::Mode::Predict}) {
      EXPECT_TRUE(differ(six, 4, mode));
      EXPECT_EQ(differ(five, 4, mode), mode != nn::Mode::Train);
      EXPECT_EQ(differ(six, 5, mode), mode == nn::Mode::Predict);
    }
  }
}

TEST(Session, LastItemAloneCanBeLearnt) {
  const auto batch = columns({{3, 9, 4}, {7, 2, 11, 12, 5, 1}, {8}});
  for (const auto& body : bodies_by("clm")) {
    auto config = config_of(body);
    config.dropout = 0;
    config.eval_time = "target";
    const auto all = Model(config).run(batch, nn::Mode::Train);
    EXPECT_EQ(all.at("count").item<int64_t>(), 7);
    config.train_on_last_item_seq_only = true;
    const auto last = Model(config).run(batch, nn::Mode::Train);
    EXPECT_EQ(last.at("count").item<int64_t>(), 2);
    EXPECT_TRUE(at::equal(last.at("loss"), Model(config).run(batch, nn::Mode::Evaluate)["loss"]));
  }
  auto config = config_of("xlnet plm");
  config.train_on_last_item_seq_only = true;
  EXPECT_THROW(make_session_model(config), UsageError);
}

TEST(Session, PaddingCompetesOnlyWhenAsked) {
  auto config = config_of("gpt2");
  const auto bundle = columns({{3, 9, 4}});
  const auto plain = Model(config).run(bundle, nn::Mode::Evaluate).at("loss").item<double>();
  config.score_padding = true;
  const auto with = Model(config).run(bundle, nn::Mode::Evaluate).at("loss").item<double>();
  EXPECT_GT(with, plain);
  EXPECT_EQ(Model(config).run(bundle, nn::Mode::Predict).at("scores").size(1), 29);
}

TEST(Session, ConfigSurvivesItsJson) {
  auto config = config_of("bert", "element-wise-sum");
  config.score_padding = config.attend_padding = true;
  config.mlm_probability = 0.25;
  const auto json = config.to_json();
  SessionConfig read;
  read.read_json(json, "x");
  EXPECT_EQ(read.to_json(), json);
}

TEST(Session, BodiesAndMaskingsThatDoNotFitAreRefused) {
  auto config = config_of("gpt2");
  config.masking = "mlm";
  EXPECT_THROW(make_session_model(config), UsageError);
  config = config_of("bert rtd");
  try {
    make_session_model(config);
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("rtd does not go with the body bert; expected one of "
                        "electra"),
              std::string::npos)
        << error.what();
  }
  config = config_of("bert", "element-wise-sum");
  config.continuous_projection = 4;
  EXPECT_THROW(make_session_model(config), UsageError);
}

}  // namespace
}  // namespace convoy::models
