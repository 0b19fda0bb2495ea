#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/parallel/run/replica.h"
#include "tests/models/testing.h"

// Weights that files hold under other names: old ones, and those of tensors that are the same.
namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;
using parallel::Replica;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

using Tensors = std::map<std::string, at::Tensor>;

constexpr const char* kBias = "cls.predictions.bias";
constexpr const char* kDecoderBias = "cls.predictions.decoder.bias";

models::BertTextConfig bert(bool tied) {
  auto config = models::small_bert({.ids = 13, .width = 8, .layers = 1, .length = 6});
  config.tie_word_embeddings = tied;
  return config;
}

struct StartedModel : Replica {
  explicit StartedModel(nn::BlockList blocks, uint64_t seed = 1)
      : Replica(std::move(blocks), comm::Group(), with(seed)) {
    start();
  }
  static parallel::ReplicaOptions with(uint64_t seed) {
    parallel::ReplicaOptions options;
    options.seed = seed;
    return options;
  }
  at::Tensor value(const std::string& name) { return flat().value_of(name).clone(); }
};

class OtherNames : public testing::Test {
 protected:
  ~OtherNames() override { fs::remove_all(folder_); }

  static Tensors of(StartedModel& from) {
    Tensors out;
    for (const auto& slot : from.flat().all_slots()) {
      const auto& name = slot.param->spec().name;
      out[name] = from.value(name);
    }
    return out;
  }

  void write(const Tensors& tensors) const {
    std::vector<formats::TensorView> views;
    for (const auto& [name, tensor] : tensors) {
      views.push_back({name, "F32", tensor.sizes().vec(), tensor.data_ptr(), tensor.nbytes()});
    }
    formats::write_safetensors(folder_ / "model.safetensors", views);
  }

  LoadReport load(StartedModel& into, const models::WeightLayout& layout) const {
    return load_weights(folder_, into.weights(), into.world(), layout);
  }

  std::string error_of(StartedModel& into, const models::WeightLayout& layout) const {
    try {
      load(into, layout);
    } catch (const FileError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  static at::Tensor filled(double value) { return at::full({13}, value); }

  const fs::path folder_ = unique_folder("convoy-other-names-test");
};

TEST_F(OtherNames, GammaAndBetaOfTheFirstBerts) {
  StartedModel from(bert(true).make_blocks());
  Tensors old;
  for (const auto& [name, tensor] : of(from)) {
    auto other = name;
    for (const auto& [end, was] :
         {std::pair("LayerNorm.weight", "LayerNorm.gamma"), {"LayerNorm.bias", "LayerNorm.beta"}}) {
      if (name.ends_with(end)) other = name.substr(0, name.size() - std::strlen(end)) + was;
    }
    old[other] = tensor + 1;
  }
  ASSERT_TRUE(old.contains("bert.embeddings.LayerNorm.gamma"));
  write(old);
  for (const bool sorts : {false, true}) {
    StartedModel into(sorts ? bert(true).make_classifier(2) : bert(true).make_blocks(), 2);
    const auto report = load(into, sorts ? bert(true).classifier_layout() : bert(true).layout());
    const std::string norm = "bert.encoder.layer.0.output.LayerNorm.weight";
    EXPECT_TRUE(at::equal(into.value(norm), from.value(norm) + 1)) << sorts;
    EXPECT_EQ(report.drawn.empty(), !sorts);
  }
  old["bert.embeddings.LayerNorm.weight"] = old["bert.embeddings.LayerNorm.gamma"];
  write(old);
  StartedModel into(bert(true).make_blocks());
  EXPECT_THAT(error_of(into, bert(true).layout()), HasSubstr("bert.embeddings.LayerNorm.weight"));
}

TEST_F(OtherNames, HeadsOfOtherTasksAreIgnored) {
  StartedModel from(bert(true).make_blocks());
  auto tensors = of(from);
  tensors["qa_outputs.weight"] = at::ones({2, 8});
  tensors["qa_outputs.bias"] = at::ones({2});
  tensors["classifier.weight"] = at::ones({9, 8});
  tensors["classifier.bias"] = at::ones({9});
  write(tensors);
  StartedModel masked(bert(true).make_blocks(), 2);
  EXPECT_THAT(load(masked, bert(true).layout()).skipped, Contains("qa_outputs.bias"));
  StartedModel sorts(bert(true).make_classifier(2), 2);
  const auto report = load(sorts, bert(true).classifier_layout(/*has_other_head=*/true));
  EXPECT_THAT(report.skipped, Contains("qa_outputs.weight"));
  EXPECT_THAT(report.skipped, Contains("classifier.weight"));
  EXPECT_THAT(report.drawn, Contains("classifier.weight"));
  EXPECT_THAT(error_of(sorts, bert(true).classifier_layout()),
              HasSubstr("classifier.bias is [9] instead of [2]"));
}

/// As transformers 5.24 loads them, but for a bias that only has the other name.
TEST_F(OtherNames, BiasOfAnUntiedBertIsItsDecoders) {
  StartedModel from(bert(false).make_blocks());
  const auto layout = bert(false).layout();
  auto tensors = of(from);
  ASSERT_TRUE(tensors.contains(kBias) && tensors.contains(kDecoderBias));
  tensors[kBias] = filled(1);
  tensors[kDecoderBias] = filled(2);
  write(tensors);
  StartedModel both(bert(false).make_blocks(), 2);
  EXPECT_THAT(load(both, layout).skipped, IsEmpty());
  EXPECT_TRUE(at::equal(both.value(kDecoderBias), filled(2)));
  // The scores have it.
  parallel::MicroBatch batch{{{"input_ids", at::ones({1, 3}, at::kLong)}},
                             at::zeros({1}, at::kLong)};
  both.flat().publish_weights();
  const auto before = both.forward(batch, nn::Mode::Predict).at("logits").clone();
  both.flat().value_of(kDecoderBias).fill_(5);
  both.flat().publish_weights();
  const auto after = both.forward(batch, nn::Mode::Predict).at("logits");
  EXPECT_TRUE(at::allclose(after - before, at::full_like(after, 3)));

  tensors.erase(kDecoderBias);  // as earlier versions of convoy wrote it
  write(tensors);
  StartedModel one(bert(false).make_blocks(), 3);
  EXPECT_THAT(load(one, layout).drawn, IsEmpty());
  EXPECT_TRUE(at::equal(one.value(kDecoderBias), filled(1)));
  // Both are written.
  const auto folder = folder_ / "again";
  save_weights(folder, one.weights(), one.world());
  const formats::SafetensorsFolder written(folder);
  EXPECT_TRUE(written.tensors().contains(kBias));
  EXPECT_TRUE(written.tensors().contains(kDecoderBias));
  StartedModel again(bert(false).make_blocks(), 4);
  load_weights(folder, again.weights(), again.world());
  EXPECT_TRUE(at::equal(again.value(kDecoderBias), filled(1)));
}

TEST_F(OtherNames, TiedBertTakesEitherNameOfItsBias) {
  StartedModel from(bert(true).make_blocks());
  const auto layout = bert(true).layout();
  auto tensors = of(from);
  ASSERT_FALSE(tensors.contains(kDecoderBias));
  tensors.erase(kBias);
  tensors[kDecoderBias] = filled(2);
  write(tensors);
  StartedModel alone(bert(true).make_blocks(), 2);
  EXPECT_THAT(load(alone, layout).drawn, IsEmpty());
  EXPECT_TRUE(at::equal(alone.value(kBias), filled(2)));
  tensors[kBias] = filled(1);
  write(tensors);
  StartedModel both(bert(true).make_blocks(), 2);
  EXPECT_THAT(load(both, layout).skipped, Contains(kBias)) << "told, for they differ";
  EXPECT_TRUE(at::equal(both.value(kBias), filled(2)));
}

TEST_F(OtherNames, T5TakesAnyNameOfItsSharedTable) {
  const auto config = models::small_t5({.ids = 13, .width = 8, .layers = 1});
  StartedModel from(config.make_blocks());
  auto tensors = of(from);
  const auto table = tensors.at("shared.weight");
  tensors.erase("shared.weight");
  tensors["decoder.embed_tokens.weight"] = table;  // as safetensors.torch.save_model writes it
  write(tensors);
  StartedModel alone(config.make_blocks(), 2);
  EXPECT_THAT(load(alone, config.layout()).drawn, IsEmpty());
  EXPECT_TRUE(at::equal(alone.value("shared.weight"), table));
  tensors["encoder.embed_tokens.weight"] = table + 1;
  write(tensors);
  EXPECT_THAT(error_of(alone, config.layout()),
              HasSubstr("decoder.embed_tokens.weight differs from encoder.embed_tokens.weight"));
  tensors["encoder.embed_tokens.weight"] = tensors["shared.weight"] = table;
  write(tensors);
  StartedModel three(config.make_blocks(), 2);
  EXPECT_THAT(load(three, config.layout()).drawn, IsEmpty());
}

}  // namespace
}  // namespace convoy::checkpoint
