#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/nn/attention/kv_cache.h"
#include "convoy/tasks/language/generate.h"
#include "tests/comm/ranks_testing.h"
#include "tests/parity/fixture.h"

// generate.json holds what Hugging Face's models go on with; make_generate_fixtures.py wrote it.
namespace convoy::tasks {
namespace {

using testing::HasSubstr;

using Prompts = std::vector<std::vector<int32_t>>;

Json expectations() {
  const auto path = std::string(CONVOY_SOURCE_DIR) + "/tests/parity/generate.json";
  return parse_json(read_file(path), path);
}

struct Model {
  std::unique_ptr<models::LanguageModelConfig> config;
  std::unique_ptr<parallel::Strategy> strategy;
};

/// With the weights of causal_*.safetensors or t5_*.safetensors, their matrices scaled.
Model make_model(const std::string& family, std::string variant, const Json& expected,
                 at::ScalarType dtype = at::kFloat, const comm::Group& group = {}) {
  const bool answers = family == "t5";
  if (answers && variant.empty()) variant = "relu";
  const auto file = fixture(answers ? "t5_" + variant : "causal_" + family);
  const double scale = answers ? expected["t5_scales"][variant] : expected["scale"];
  const auto config = answers ? parse_json(file.metadata().at("config"), "fixture")
                              : parse_json(file.metadata().at("configs"), "fixture").at(variant);
  Model model{models::read_model_config(config, variant), nullptr};
  parallel::ReplicaOptions options;
  options.trains = false;
  options.compute_dtype = dtype;
  options.fill = [&](parallel::Replica& replica) {
    for (const auto& slot : replica.flat().all_slots()) {
      const auto& name = slot.param->spec().name;
      auto weight = tensor(file, "weight." + name);
      replica.flat().value_of(name).copy_(weight.dim() == 2 ? weight * scale : weight);
    }
  };
  model.strategy =
      parallel::make_process_strategy([&] { return model.config->make_blocks(); }, group, options);
  return model;
}

Prompts texts_of(const Model& model, const Prompts& prompts, const GenerateOptions& options) {
  Prompts texts;
  generate(*model.strategy, *model.config, prompts, options, [&](const Generated& text) {
    EXPECT_EQ(text.prompt, std::ssize(texts));
    texts.push_back(text.ids);
  });
  return texts;
}

class Generate : public testing::TestWithParam<const char*> {
 protected:
  Json expected_ = expectations();
  bool answers_ = GetParam() == std::string("t5");
  Prompts prompts_ = expected_[answers_ ? "t5_prompts" : "prompts"].get<Prompts>();
};

/// Of what continues its prompt.
class Continue : public Generate {};

TEST_P(Generate, GoesOnAsHuggingFaceInAnyBatchWithAndWithoutACache) {
  for (const auto& [variant, theirs] : expected_["greedy"][GetParam()].items()) {
    const auto model = make_model(GetParam(), variant, expected_);
    for (const int64_t batch_size : {1, 2, 5}) {
      for (const bool use_cache : {true, false}) {
        GenerateOptions options;
        options.max_new_tokens = expected_["new"];
        options.batch_size = batch_size;
        options.use_cache = use_cache;
        EXPECT_EQ(Json(texts_of(model, prompts_, options)), theirs)
            << variant << ", batches of " << batch_size << ", cache " << use_cache;
      }
    }
  }
}

TEST_P(Generate, DrawsTheSameInAnyBatch) {
  const auto model = make_model(GetParam(), "", expected_);
  GenerateOptions options;
  options.sample = true;
  options.max_new_tokens = 6;
  options.batch_size = 1;
  const auto one_by_one = texts_of(model, prompts_, options);
  options.batch_size = 3;
  EXPECT_EQ(texts_of(model, prompts_, options), one_by_one);
  options.seed = 43;
  EXPECT_NE(texts_of(model, prompts_, options), one_by_one);
}

// Else the rank with fewer prompts ends while the others wait for it.
TEST_P(Generate, ComparesPromptsAndOptionsOfTheRanks) {
  const auto message_of = [&](const std::function<void(Prompts&, GenerateOptions&)>& differ) {
    std::vector<std::string> messages(2);
    std::vector<Prompts> texts(2);
    comm::run_thread_ranks(2, [&](const comm::Group& group) {
      const auto rank = static_cast<size_t>(group.rank());
      const auto model = make_model(GetParam(), "", expected_, at::kFloat, group);
      auto prompts = prompts_;
      GenerateOptions options;
      options.max_new_tokens = 3;
      options.batch_size = 2;
      if (rank == 1) differ(prompts, options);
      try {
        texts[rank] = texts_of(model, prompts, options);
      } catch (const UsageError& error) {
        messages[rank] = error.what();
      }
    });
    EXPECT_EQ(messages[0], messages[1]);
    EXPECT_EQ(texts[0].size(), messages[0].empty() ? prompts_.size() : 0);
    return messages[0];
  };
  EXPECT_EQ(message_of([](auto&, auto&) {}), "");
  EXPECT_THAT(message_of([](auto& prompts, auto&) { prompts.pop_back(); }),
              HasSubstr("the prompts and options of generate of rank 1 and of rank 0 differ"));
  EXPECT_THAT(message_of([](auto& prompts, auto&) { prompts[1].back() ^= 1; }),
              HasSubstr("got prompt 2 of "));
  EXPECT_THAT(message_of([](auto&, auto& options) { options.batch_size = 1; }),
              HasSubstr("got batch_size = 1 on rank 1, batch_size = 2 on rank 0"));
  EXPECT_THAT(message_of([](auto&, auto& options) { options.max_new_tokens = 4; }),
              HasSubstr("got max_new_tokens = 4"));
  EXPECT_THAT(message_of([](auto&, auto& options) { options.stops = {"x"}; }),
              HasSubstr("stops = [\"x\"]"));
}

TEST_P(Generate, EndsWhereItIsAsked) {
  const auto model = make_model(GetParam(), "", expected_);
  const auto full = expected_["greedy"][GetParam()][answers_ ? "relu" : ""].get<Prompts>();
  const int32_t end = full[0][3], stop = full[1][4];
  GenerateOptions options;
  options.max_new_tokens = 100;
  options.end_ids = {end};
  options.is_over = [&](int64_t, std::span<const int32_t> ids) { return ids.back() == stop; };
  std::set<Ended> seen;
  generate(*model.strategy, *model.config, prompts_, options, [&](const Generated& text) {
    const auto number = static_cast<size_t>(text.prompt);
    std::vector<int32_t> expected;
    auto ended = Ended::AtContext;
    for (const int32_t id : full[number]) {
      if (id == end) ended = Ended::AtEndToken;
      if (ended == Ended::AtEndToken) break;
      expected.push_back(id);
      if (id == stop) ended = Ended::AtStop;
      if (ended == Ended::AtStop) break;
    }
    seen.insert(text.ended);
    if (answers_ && ended == Ended::AtContext) return;  // none is too long
    if (ended != Ended::AtContext) {
      EXPECT_EQ(text.ended, ended);
      EXPECT_EQ(text.ids, expected);
    } else if (text.ended == Ended::AtContext) {
      EXPECT_EQ(std::ssize(prompts_[number]) + std::ssize(text.ids), model.config->max_length());
    }
  });
  EXPECT_GE(seen.size(), 2u);
}

TEST_P(Continue, ACacheInPartsGivesTheLogitsOfTheWhole) {
  const auto model = make_model(GetParam(), "", expected_);
  const auto ids = tensor(fixture(std::string("causal_") + GetParam()), "ids")[0];
  const int64_t B = ids.size(0), T = ids.size(1);
  const auto all = at::scalar_tensor(0, at::kLong);
  const auto run = [&](const at::Tensor& part, int64_t begin, std::shared_ptr<nn::KvCache> cache) {
    parallel::MicroBatch batch{{{"input_ids", part}, {"logits_to_keep", all}},
                               at::arange(B, at::kLong)};
    batch.inputs["positions"] =
        at::arange(begin, begin + part.size(1), at::kLong).expand({B, -1}).contiguous();
    batch.cache = std::move(cache);
    return model.strategy->forward({batch}, nn::Mode::Predict)[0].at("logits");
  };
  const auto whole = run(ids, 0, nullptr);
  const auto cache = std::make_shared<nn::KvCache>(T);
  std::vector<at::Tensor> parts;
  for (const auto& [begin, end] : {std::pair{0, 3}, {3, 7}, {7, 8}}) {
    parts.push_back(run(ids.narrow(1, begin, end - begin).contiguous(), begin, cache));
    cache->advance(end - begin);
  }
  const auto off = (at::cat(parts, 1) - whole).abs().max() / whole.abs().max();
  EXPECT_LE(off.item<double>(), 1e-6);
  EXPECT_EQ(static_cast<double>(cache->bytes()),
            models::cache_bytes(*model.config, B, T, at::kFloat));
}

void expect_refusal(const Model& model, const Prompts& prompts, const GenerateOptions& options,
                    const std::string& part) {
  std::string text = "nothing";
  try {
    texts_of(model, prompts, options);
  } catch (const UsageError& error) {
    text = error.what();
  }
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_P(Continue, RefusesWhatCannotBe) {
  const auto model = make_model(GetParam(), "", expected_);
  expect_refusal(model, {{1}, {}}, {}, "prompt 2 is empty");
  expect_refusal(model, {{61}}, {},
                 "prompt 1 holds the token 61, but the model's vocab_size is 61");
  expect_refusal(model, {std::vector<int32_t>(16, 1)}, {},
                 "prompt 1 has 16 tokens, the model's context");
}

TEST(NextToken, IsDrawnAsHuggingFacesWarpersLeaveThem) {
  const auto expected = expectations();
  const auto scores = at::tensor(expected["scores"].get<std::vector<float>>());
  constexpr int kDraws = 20000;
  for (const auto& one : expected["warped"]) {
    GenerateOptions options;
    options.temperature = one["temperature"];
    options.top_k = one["top_k"];
    options.top_p = one["top_p"];
    std::vector<int> drawn(static_cast<size_t>(scores.numel()));
    for (int i = 0; i < kDraws; ++i) {
      ++drawn[static_cast<size_t>(draw_token(scores, options, (i + 0.5) / kDraws))];
    }
    for (size_t id = 0; id < drawn.size(); ++id) {
      EXPECT_NEAR(static_cast<double>(drawn[id]) / kDraws, one["probabilities"][id].get<double>(),
                  2.0 / kDraws)
          << one.dump() << " " << id;
    }
  }
}

TEST_P(Generate, TellsTheMemoryOfItsCache) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto model = make_model(GetParam(), "", expected_, dtype);
    GenerateOptions options;
    options.max_new_tokens = 5;
    const auto report =
        generate(*model.strategy, *model.config, {prompts_[0]}, options, [](const Generated&) {});
    // A decoder begins with a token of its own, and keeps what it sees of the encoder's.
    const int64_t positions = std::ssize(prompts_[0]) + 5 + (answers_ ? 1 : 0);
    EXPECT_EQ(static_cast<double>(report.cache_bytes),
              models::cache_bytes(*model.config, 1, positions, dtype));
    EXPECT_EQ(report.num_tokens, 5);
  }
}

TEST(Cache, IsRefusedWhereItDoesNotFitBesideTheWeights) {
  const auto model = make_model("llama", "", expectations());
  auto& config = dynamic_cast<models::DecoderConfig&>(*model.config);
  config.max_position_embeddings = int64_t{1} << 40;
  GenerateOptions options;
  options.max_new_tokens = int64_t{1} << 39;
  expect_refusal(model, {{1}, {2}}, options,
                 "the cache of keys and values of 2 texts of 549755813889 positions takes");
}

INSTANTIATE_TEST_SUITE_P(Families, Generate, testing::Values("gpt2", "llama", "t5"));
INSTANTIATE_TEST_SUITE_P(Families, Continue, testing::Values("gpt2", "llama"));

}  // namespace
}  // namespace convoy::tasks
