#include "convoy/models/padding_row.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/parallel/run/replica.h"
#include "tests/models/testing.h"

namespace convoy::models {
namespace {

using testing::HasSubstr;

TEST(PaddingRow, IsTorchsPaddingIdx) {
  EXPECT_EQ(padding_row(Json(), 9), std::nullopt);
  EXPECT_EQ(padding_row(3, 9), 3);
  EXPECT_EQ(padding_row(-1, 9), 8) << "as the first Llamas say it";
  for (const Json& wrong : {Json(9), Json(-10), Json(0.5), Json("a"), Json(1e30)}) {
    EXPECT_THROW(padding_row(wrong, 9), UsageError) << wrong;
  }
}

/// Sum of the squares of the gradient of each row of a table after a step of these ids.
at::Tensor squares(const LanguageModelConfig& config, const std::string& name,
                   const nn::Bundle& inputs) {
  parallel::Replica replica(config.make_blocks(), comm::Group(), {});
  replica.start();
  parallel::OptimizerOptions still;
  still.max_grad_norm = 0;
  replica.step({{inputs, at::arange(inputs.at("input_ids").size(0), at::kLong)}},
               {0, 0, /*learning_rate=*/0.0}, still);
  for (const auto& slot : replica.flat().all_slots()) {
    if (slot.param->spec().name != name) continue;
    return parallel::FlatBuffers::view(replica.flat().grads(), slot).square().sum(1).clone();
  }
  return {};
}

TEST(PaddingRow, HasNoGradientFromTheTokensThatItIs) {
  const auto ids = at::tensor({1, 3, 2, 3, 5, 4}, at::kLong).view({2, 3});
  auto llama = small_llama({.ids = 7, .width = 8, .layers = 1, .length = 4});
  llama.attention_dropout = 0;
  const std::string table = "model.embed_tokens.weight";
  const auto all = squares(llama, table, {{"input_ids", ids}});
  EXPECT_GT(all[3].item<float>(), 0);
  llama.pad_token_id = 3;
  const auto but_three = squares(llama, table, {{"input_ids", ids}});
  for (int64_t id = 1; id < 6; ++id) {
    EXPECT_EQ(but_three[id].item<float>() > 0, id != 3 && all[id].item<float>() > 0) << id;
  }

  auto bert = small_bert({.ids = 7, .width = 8, .layers = 1, .length = 4});
  bert.tie_word_embeddings = false;  // a tied head trains the row
  bert.hidden_dropout_prob = bert.attention_probs_dropout_prob = 0;
  const std::string words = "bert.embeddings.word_embeddings.weight";
  const nn::Bundle masked{{"input_ids", ids}, {"labels", ids}};
  bert.pad_token_id = 3;
  const auto squared = squares(bert, words, masked);
  EXPECT_EQ(squared[3].item<float>(), 0);
  EXPECT_GT(squared[1].item<float>(), 0);
  bert.pad_token_id = Json();
  EXPECT_GT(squares(bert, words, masked)[3].item<float>(), 0);
  bert.pad_token_id = 7;
  EXPECT_THROW(bert.check(), UsageError);
}

/// First values of a table, drawn whole.
at::Tensor first_values(const LanguageModelConfig& config, const std::string& name) {
  for (const auto& block : config.make_blocks()) {
    for (const auto& param : block->params()) {
      if (param->spec().name != name) continue;
      auto out = at::empty(param->spec().shape);
      nn::initialize(param->spec(), 1, out);
      return out;
    }
  }
  return {};
}

// As torch's Embedding with a padding_idx, which Hugging Face's initialization keeps.
TEST(PaddingRow, BeginsWithZeros) {
  auto llama = small_llama({.ids = 7, .width = 8, .layers = 1, .length = 4});
  auto bert = small_bert({.ids = 7, .width = 8, .layers = 1, .length = 4});
  bert.pad_token_id = Json();
  const std::string table = "model.embed_tokens.weight",
                    words = "bert.embeddings.word_embeddings.weight";
  auto drawn = first_values(llama, table), of_bert = first_values(bert, words);
  llama.pad_token_id = -1;
  bert.pad_token_id = 0;
  drawn[6] = 0;
  of_bert[0] = 0;
  EXPECT_TRUE(at::equal(first_values(llama, table), drawn));
  EXPECT_TRUE(at::equal(first_values(bert, words), of_bert));
}

}  // namespace
}  // namespace convoy::models
