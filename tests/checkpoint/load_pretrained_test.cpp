#include "convoy/checkpoint/load_pretrained.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/parallel/run/replica.h"
#include "tests/models/testing.h"

namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;
using parallel::Replica;

class LoadPretrained : public testing::Test {
 protected:
  ~LoadPretrained() override { fs::remove_all(folder_); }

  fs::path folder_ = unique_folder("convoy-pretrained");
};

TEST_F(LoadPretrained, GivesTheModelOfAFolder) {
  const auto config = models::small_gpt2({.ids = 13, .width = 8, .length = 6});
  parallel::ReplicaOptions options;
  options.seed = 3;
  Replica saved(config.make_blocks(), comm::Group(), options);
  saved.start();
  save_weights(folder_, saved.weights(), saved.world());
  write_file(folder_ / "config.json", config.to_json().dump());

  const auto model = load_pretrained(folder_);
  EXPECT_EQ(model.config->family(), "gpt2");
  EXPECT_EQ(model.config->num_ids(), 13);
  options.seed = 4;
  options.fill = model.weights;
  Replica read(model.blocks(), comm::Group(), options);
  read.start();
  const auto was = saved.weights(), is = read.weights();
  ASSERT_EQ(was.size(), is.size());
  for (size_t t = 0; t < was.size(); ++t) {
    for (size_t p = 0; p < was[t].pieces.size(); ++p) {
      EXPECT_TRUE(at::equal(was[t].pieces[p].values, is[t].pieces[p].values)) << t;
    }
  }
}

TEST_F(LoadPretrained, AFolderWithoutAModelIsRefused) {
  EXPECT_THROW(load_pretrained(folder_), FileError);
  write_file(folder_ / "config.json", R"({"model_type": "mamba"})");
  try {
    load_pretrained(folder_);
    FAIL() << "taken";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("describes a model of type \"mamba\""));
  }
}

}  // namespace
}  // namespace convoy::checkpoint
