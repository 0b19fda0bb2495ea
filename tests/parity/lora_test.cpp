#include <gmock/gmock.h>

#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/merge.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/models/bert/bert_text.h"
#include "tests/parity/reference.h"

// The fixtures hold what PEFT computed with adapters; make_lora_fixtures.py wrote them.
namespace convoy {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kLoraBatches = 5, kLoraGradients = 3;

class LoraParity : public testing::TestWithParam<const char*> {
 protected:
  LoraParity() : file_(fixture(std::string("lora_") + GetParam())) {
    write("base.", folder_ / "base" / formats::kWeightsFile);
    write("peft.", folder_ / "adapter" / formats::kAdapterFile);
    auto config = parse_json(file_.metadata().at("config"), "fixture");
    config_ = models::read_model_config(config, "fixture");
    const auto* bert = dynamic_cast<const models::BertTextConfig*>(config_.get());
    layout_ = bert != nullptr ? bert->classifier_layout() : config_->layout();
    write_file(folder_ / "base/config.json", config.dump());
    auto adapter = parse_json(file_.metadata().at("adapter"), "fixture");
    adapter["base_model_name_or_path"] = (folder_ / "base").string();
    write_file(folder_ / "adapter" / checkpoint::kAdapterConfig, adapter.dump());
  }
  ~LoraParity() override { fs::remove_all(folder_); }

  /// The fixture's tensors of a prefix, as a file, and in place of one of them or beside them
  /// zeros.
  void write(const std::string& prefix, const fs::path& path, const std::string& other = "",
             const std::vector<int64_t>& shape = {}) {
    make_folder(path.parent_path());
    std::vector<formats::TensorView> tensors;
    const auto zeros = at::zeros(shape);
    if (!other.empty()) {
      tensors.push_back({other, "F32", shape, zeros.const_data_ptr(), zeros.nbytes()});
    }
    for (const auto& [name, entry] : file_.entries()) {
      if (!name.starts_with(prefix) || name == prefix + other) continue;
      const auto bytes = file_.bytes(name);
      tensors.push_back(
          {name.substr(prefix.size()), entry.dtype, entry.shape, bytes.data(), bytes.size()});
    }
    formats::write_safetensors(path, tensors);
  }

  nn::BlockList blocks() const {
    const auto* bert = dynamic_cast<const models::BertTextConfig*>(config_.get());
    return bert != nullptr ? bert->make_classifier(3) : config_->make_blocks();
  }

  std::unique_ptr<parallel::Replica> model(parallel::ReplicaOptions options = {}) const {
    auto adapter = checkpoint::read_adapter_config(folder_ / "adapter");
    options.fill = [&](parallel::Replica& replica) {
      checkpoint::load_weights(folder_ / "base", checkpoint::base_part(replica.weights()),
                               replica.world(), layout_);
      checkpoint::load_weights(folder_ / "adapter", checkpoint::saved_part(replica.weights()),
                               replica.world());
    };
    auto out = std::make_unique<parallel::Replica>(
        checkpoint::adapted(blocks(), adapter, layout_, /*strict=*/false), comm::Group(), options);
    out->start();
    return out;
  }

  parallel::MicroBatch batch(int64_t index) const {
    const auto ids = tensor(file_, "ids")[index];
    return {{{"input_ids", ids}, {"labels", tensor(file_, "labels")[index]}},
            at::arange(ids.size(0), at::kLong)};
  }

  at::Tensor logits(parallel::Replica& replica) const { return all_logits(replica, batch(0)); }

  const fs::path folder_ = unique_folder("convoy-lora");
  formats::SafetensorsFile file_;
  std::unique_ptr<models::LanguageModelConfig> config_;
  models::WeightLayout layout_;
};

TEST_P(LoraParity, Logits) {
  const auto replica = model();
  EXPECT_LE(error(logits(*replica), tensor(file_, "logits")), 1e-5);
}

TEST_P(LoraParity, EveryGradientIsAsNearToTheTruthAsPyTorchs) {
  expect_gradients(*model(), file_, kLoraGradients, [&](int64_t i) { return batch(i); });
  parallel::ReplicaOptions options;
  options.parallelism.recompute = true;
  expect_gradients(*model(options), file_, kLoraGradients, [&](int64_t i) { return batch(i); });
}

TEST_P(LoraParity, AHundredAdamWSteps) {
  const auto replica = model();
  const auto frozen = replica->flat().num_parameters() - replica->flat().num_trainable_parameters();
  const auto& layout = replica->flat().layout();
  EXPECT_LT(layout.kept(parallel::Kind::Moments), frozen / 2) << "of frozen weights there are none";
  expect_losses(*replica, file_, kLoraBatches, [&](int64_t i) { return batch(i); });
}

TEST_P(LoraParity, WritesTheFilesThatPeftWrote) {
  const auto replica = model();
  const auto to = folder_ / "again";
  make_folder(to);
  checkpoint::save_weights(to, checkpoint::saved_part(replica->weights()), replica->world());
  const formats::SafetensorsFile theirs(folder_ / "adapter" / formats::kAdapterFile),
      ours(to / formats::kAdapterFile);
  ASSERT_EQ(ours.entries().size(), theirs.entries().size());
  for (const auto& [name, entry] : theirs.entries()) {
    EXPECT_TRUE(at::equal(tensor(ours, name), tensor(theirs, name))) << name;
  }
  auto adapter = checkpoint::read_adapter_config(folder_ / "adapter");
  checkpoint::adapted(blocks(), adapter, layout_, /*strict=*/false);
  write_file(to / checkpoint::kAdapterConfig, checkpoint::to_json(adapter).dump());
  auto again = checkpoint::read_adapter_config(to);
  checkpoint::adapted(blocks(), again, layout_, /*strict=*/false);
  EXPECT_EQ(checkpoint::to_json(again), checkpoint::to_json(adapter));
  const auto json = parse_json(file_.metadata().at("adapter"), "fixture");
  for (const char* key : {"r", "lora_alpha", "use_rslora", "fan_in_fan_out", "rank_pattern",
                          "alpha_pattern", "task_type", "bias", "peft_type", "modules_to_save"}) {
    EXPECT_EQ(checkpoint::to_json(adapter)[key], json[key]) << key;
  }
}

TEST_P(LoraParity, MergesAsPeft) {
  const auto written =
      checkpoint::merge_adapter(folder_ / "adapter", folder_ / "merged", int64_t{1} << 30);
  EXPECT_GT(written.num_tensors, 0);
  const formats::SafetensorsFile ours(folder_ / "merged" / formats::kWeightsFile);
  int64_t changed = 0;
  for (const auto& [name, entry] : ours.entries()) {
    const auto theirs = tensor(file_, "merged." + name), value = tensor(ours, name);
    EXPECT_LE(error(value, theirs), 1e-6) << name;
    changed += !at::equal(value, tensor(file_, "base." + name));
  }
  EXPECT_GT(changed, 0);
  EXPECT_TRUE(fs::exists(folder_ / "merged/config.json"));
  EXPECT_FALSE(fs::exists(folder_ / "merged" / checkpoint::kAdapterConfig));
}

class Merging : public LoraParity {
 protected:
  const fs::path adapter_ = folder_ / "adapter";

  std::string error_of_merge(const char* to = "refused") {
    try {
      checkpoint::merge_adapter(adapter_, folder_ / to, int64_t{1} << 30);
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  }
  void change(const fs::path& file, const char* key, const Json& value) {
    auto json = parse_json(read_file(file), file.string());
    json[key] = value;
    write_file(file, json.dump());
  }
};

TEST_P(Merging, RefusesWhatNothingTakes) {
  write("peft.", adapter_ / formats::kAdapterFile,
        "base_model.model.model.embed_tokens.lora_embedding_A", {4, 7});
  EXPECT_THAT(error_of_merge(), HasSubstr("nothing takes: base_model.model.model.embed_tokens."
                                          "lora_embedding_A"));
  EXPECT_FALSE(fs::exists(folder_ / "refused"));
  write("peft.", adapter_ / formats::kAdapterFile, "base_model.model.lm_head.weight", {4, 7});
  change(adapter_ / checkpoint::kAdapterConfig, "modules_to_save", {"lm_head"});
  change(folder_ / "base/config.json", "tie_word_embeddings", true);
  EXPECT_THAT(error_of_merge(), HasSubstr("has a trained lm_head.weight, which the model in"));
}

INSTANTIATE_TEST_SUITE_P(Models, Merging, testing::Values("llama"));

class MergingAHead : public Merging {};

TEST_P(MergingAHead, TakesItsShapeFromTheAdapter) {
  const std::string head = "classifier.weight", key = "base_model.model." + head;
  const auto before = tensor(file_, "base." + head);
  const int64_t width = before.size(1), labels = before.size(0) + 2;
  write("peft.", adapter_ / formats::kAdapterFile, key, {labels, width});
  EXPECT_THAT(error_of_merge(), HasSubstr("expected a config.json beside the adapter"));
  fs::copy(folder_ / "base/config.json", adapter_ / "config.json");
  EXPECT_EQ(error_of_merge("merged"), "");
  const formats::SafetensorsFile ours(folder_ / "merged" / formats::kWeightsFile);
  EXPECT_TRUE(at::equal(tensor(ours, head), at::zeros({labels, width})));
  for (const auto& [name, entry] : ours.entries()) {
    if (name == head) continue;
    EXPECT_LE(error(tensor(ours, name), tensor(file_, "merged." + name)), 1e-6) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MergingAHead, testing::Values("bert"));

INSTANTIATE_TEST_SUITE_P(Models, LoraParity,
                         testing::Values("gpt2", "llama", "phi3", "qwen3", "gemma3", "t5", "bert"));

}  // namespace
}  // namespace convoy
