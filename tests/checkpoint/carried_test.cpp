#include "convoy/checkpoint/carried.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/weights.h"
#include "tests/cli/wrapper_testing.h"

namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CarriedWeights : public testing::Test {
 protected:
  void SetUp() override {
    make_folder(folder_ / "text");
    const Json config{
        {"model_type", "mistral"},  {"vocab_size", 7},        {"hidden_size", 4},
        {"intermediate_size", 6},   {"num_hidden_layers", 1}, {"num_attention_heads", 2},
        {"num_key_value_heads", 1}, {"head_dim", 2},          {"tie_word_embeddings", false}};
    write_file(folder_ / "text/config.json", config.dump());
    const auto blocks = models::read_model_config(config, "test")->make_blocks();
    std::vector<formats::TensorView> views;
    std::vector<at::Tensor> values;
    for (const auto& block : blocks) {
      for (const auto& param : block->params()) {
        const auto& spec = param->spec();
        values.push_back(at::randn(spec.shape));
        views.push_back(
            {spec.name, "F32", spec.shape, values.back().const_data_ptr(), values.back().nbytes()});
      }
    }
    formats::write_safetensors(folder_ / "text/model.safetensors", views);
    make_wrapper(folder_ / "text", base_, "mistral3", /*old_names=*/true);
  }
  ~CarriedWeights() override { fs::remove_all(folder_); }

  Carried carried() const {
    const auto file = base_ / "config.json";
    return {base_, *models::read_model_config(read_config(file), file.string())};
  }
  void save(const Carried& carried) const {
    save_weights(folder_ / "saved", carried.with({}, true), comm::Group());
  }

  const fs::path folder_ = unique_folder("convoy-carried"), base_ = folder_ / "base";
};

TEST_F(CarriedWeights, AreSavedByteForByteFromFilesThatAreGone) {
  const auto others = carried();
  EXPECT_EQ(others.num_tensors(), 3);
  EXPECT_EQ(others.num_bytes(), 90);
  make_folder(folder_ / "saved");
  fs::copy(base_, folder_ / "kept");
  fs::remove_all(base_);
  save(others);
  const formats::SafetensorsFolder before(folder_ / "kept"), after(folder_ / "saved");
  EXPECT_EQ(after.tensors().size(), 3U);
  for (const auto& name : kOtherTensors) {
    EXPECT_TRUE(bytes_of(before, name) == bytes_of(after, name)) << name;
  }
  others.check_same(folder_ / "saved");
}

TEST_F(CarriedWeights, AreNotSavedFromAFileThatWasWrittenOver) {
  const auto others = carried();
  make_folder(folder_ / "saved");
  save(others);
  std::ofstream(base_ / "model.safetensors", std::ios::app) << "more";
  try {
    save(others);
    FAIL() << "nothing was thrown";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("was changed while this run went on"));
  }
  const formats::SafetensorsFolder saved(folder_ / "saved");
  EXPECT_EQ(saved.tensors().size(), 3U);
}

TEST_F(CarriedWeights, RefuseAFolderThatCarriesOthers) {
  const auto others = carried();
  fs::remove_all(base_);
  make_wrapper(folder_ / "text", base_, "mistral3", true, /*first_byte=*/2);
  make_folder(folder_ / "saved");
  save(carried());
  try {
    others.check_same(folder_ / "saved");
    FAIL() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("carries other weights along than those of"));
  }
}

}  // namespace
}  // namespace convoy::checkpoint
