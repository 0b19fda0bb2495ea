#include <gtest/gtest.h>

#include "convoy/base/json.h"
#include "convoy/models/language_model.h"
#include "convoy/tasks/language/generate.h"
#include "tests/parity/fixture.h"

// The fixtures hold what Hugging Face's models go on with; make_decoder_fixtures.py wrote them.
namespace convoy::tasks {
namespace {

constexpr double kMatrixScale = 5;
constexpr int64_t kNewTokens = 6, kTexts = 4;

class DecoderTexts : public testing::TestWithParam<const char*> {};

TEST_P(DecoderTexts, GoOnAsHuggingFacesWithAndWithoutACache) {
  const auto file = fixture(std::string("causal_") + GetParam());
  const auto configs = parse_json(file.metadata().at("configs"), "fixture");
  for (const auto& [variant, json] : configs.items()) {
    if (!file.entries().contains("text." + variant + ".0")) continue;
    const auto config = models::read_model_config(json, variant);
    parallel::ReplicaOptions replica_options;
    replica_options.trains = false;
    replica_options.fill = [&](parallel::Replica& replica) {
      for (const auto& slot : replica.flat().all_slots()) {
        const auto& name = slot.param->spec().name;
        const auto weight = tensor(file, "weight." + name);
        const bool is_matrix = weight.dim() == 2 || name.find(".experts.") != std::string::npos;
        replica.flat().value_of(name).copy_(is_matrix ? weight * kMatrixScale : weight);
      }
    };
    const auto strategy = parallel::make_process_strategy([&] { return config->make_blocks(); },
                                                          comm::Group(), replica_options);
    std::vector<std::vector<int32_t>> prompts, expected;
    for (int64_t i = 0; i < kTexts; ++i) {
      const auto whole = tensor(file, "text." + variant + "." + std::to_string(i)).to(at::kInt);
      const auto* ids = whole.const_data_ptr<int32_t>();
      const auto* end = ids + whole.numel();
      prompts.emplace_back(ids, end - kNewTokens);
      expected.emplace_back(end - kNewTokens, end);
    }
    for (const int64_t batch_size : {1, 4}) {
      for (const bool use_cache : {true, false}) {
        GenerateOptions options;
        options.max_new_tokens = kNewTokens;
        options.batch_size = batch_size;
        options.use_cache = use_cache;
        std::vector<std::vector<int32_t>> texts;
        generate(*strategy, *config, prompts, options,
                 [&](const Generated& text) { texts.push_back(text.ids); });
        EXPECT_EQ(texts, expected)
            << variant << ", batches of " << batch_size << ", cache " << use_cache;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DecoderTexts,
                         testing::Values("gemma2", "gemma3_text", "gemma4_text", "gemma4_31b",
                                         "gpt_oss", "granite", "ministral3", "mistral", "mixtral",
                                         "olmo2", "olmo3", "olmoe", "phi3", "qwen2", "qwen2_moe",
                                         "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe",
                                         "qwen3_next", "smollm3", "gemma3", "gemma4", "mistral3",
                                         "qwen3_5", "qwen3_5_moe", "olmo_hybrid"));

}  // namespace
}  // namespace convoy::tasks
