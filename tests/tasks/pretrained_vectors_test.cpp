#include "convoy/tasks/session/pretrained_vectors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <fstream>

#include "convoy/formats/safetensors.h"
#include "convoy/prepare/items.h"
#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

namespace convoy {
namespace {

namespace pq = data::testing;

constexpr int64_t kNumItems = 30, kWidth = 6;

class PretrainedVectors : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    ASSERT_EQ(run("data synthetic --output syn --items 30 --rows 60 --with-features"), 0)
        << output_;
  }

  /// What the vector of an item begins with; the numbers go on from there.
  static float first(int64_t id) { return static_cast<float>(id) / 10; }

  std::string raw(int64_t id) const {
    return prepare::ItemNames::load(folder_ / "syn/items.parquet").raw_id(id);
  }

  /// A file by raw id of `ids`, with a vector more that no item has, in another order.
  void write_parquet(std::vector<int64_t> ids, const std::string& name = "items.parquet",
                     int64_t width = kWidth) {
    std::vector<std::string> raw_ids{"nobody"};
    std::vector<std::vector<float>> vectors(1, std::vector<float>(static_cast<size_t>(width)));
    for (const int64_t id : ids) {
      raw_ids.push_back(raw(id));
      auto& vector = vectors.emplace_back();
      for (int64_t i = 0; i < width; ++i) vector.push_back(first(id) + static_cast<float>(i));
    }
    pq::write_parquet(folder_ / name,
                      {{"raw_id", pq::words(raw_ids)}, {"embedding", pq::float_lists(vectors)}});
  }

  static std::vector<int64_t> all_items() {
    std::vector<int64_t> out;
    for (int64_t id = kNumItems; id >= 1; --id) out.push_back(id);
    return out;
  }

  int train(const std::string& more) {
    return run("train" + kTiny + "--overwrite_output_dir --output_dir out --max_steps 4 " + more);
  }

  /// A weight that `out` holds.
  at::Tensor weight(const std::string& name) const {
    const formats::SafetensorsFile file(folder_ / "out/model.safetensors");
    return at::from_blob(const_cast<std::byte*>(file.bytes(name).data()), file.entry(name).shape)
        .clone();
  }

  static at::Tensor expected() {
    return (at::arange(1, kNumItems + 1) / 10).unsqueeze(1) + at::arange(kWidth);
  }

  void expect_refused(const std::string& options, const std::string& part) {
    EXPECT_NE(train(options), 0) << output_;
    expect(part);
    EXPECT_FALSE(fs::exists(folder_ / "out/model.safetensors"));
  }
};

constexpr const char* kItemTable = "embeddings.item_id-list.weight";

TEST_F(PretrainedVectors, GoOnWithAnEarlierRun) {
  write_parquet(all_items());
  const std::string vectors = "--pretrained_embeddings item_id-list=items.parquet ";
  for (const char* more : {"", "--pretrained_trainable true "}) {
    ASSERT_EQ(train(vectors + more + "--learning_rate 0.05"), 0) << output_;
    const auto before = weight(kItemTable);
    fs::remove_all(folder_ / "first");
    fs::rename(folder_ / "out", folder_ / "first");
    ASSERT_EQ(run("train first/run.toml --model_name_or_path first --output_dir out --max_steps 1 "
                  "--learning_rate 1e-9"),
              0)
        << output_;
    EXPECT_TRUE(at::allclose(weight(kItemTable), before, 0, 1e-6)) << more;
    EXPECT_EQ(json("out/config.json"), json("first/config.json")) << "also which are frozen";
  }
}

TEST_F(PretrainedVectors, StayAsTheyAreInEveryLayout) {
  write_parquet(all_items());
  const std::string given = "--pretrained_embeddings item_id-list=items.parquet ";
  for (const char* layout :
       {"", "--strategy dp", "--zero 3 --nproc 2", "--pipeline_parallel_size 2",
        "--loss gbce --n_negatives 3", "--label_smoothing_factor 0.1",
        "--sampled_softmax true --max_n_samples 9"}) {
    ASSERT_EQ(train(given + layout), 0) << layout << output_;
    EXPECT_TRUE(at::allclose(weight(kItemTable).narrow(0, 1, kNumItems), expected(), 0, 1e-6))
        << layout;
  }
  const auto config = json("out/config.json");
  EXPECT_EQ(config["embedding_dims"]["item_id-list"], kWidth);
  ASSERT_EQ(run("predict out --rows 1"), 0) << output_;
}

TEST_F(PretrainedVectors, AreTrainedWhereThatIsAskedFor) {
  write_parquet(all_items());
  const std::string given =
      "--pretrained_embeddings item_id-list=items.parquet --pretrained_trainable true "
      "--weight_decay 0 --sampled_softmax true --max_n_samples 30 ";
  ASSERT_EQ(train(given + "--learning_rate 1e-6"), 0) << output_;
  const auto little = weight(kItemTable).narrow(0, 1, kNumItems);
  EXPECT_TRUE(at::allclose(little, expected(), 0, 1e-5)) << "the vectors are what it begins with";
  EXPECT_FALSE(at::allclose(little, expected(), 0, 1e-7));
  ASSERT_EQ(train(given + "--learning_rate 1e-6 --row_tables true --nproc 2"), 0) << output_;
  EXPECT_TRUE(at::allclose(weight(kItemTable).narrow(0, 1, kNumItems), expected(), 0, 1e-5));
}

TEST_F(PretrainedVectors, ComeFromMatricesByNumber) {
  std::vector<float> values;
  for (int64_t id = 0; id <= kNumItems; ++id) {
    for (int64_t i = 0; i < kWidth; ++i) values.push_back(first(id) + static_cast<float>(i));
  }
  const auto bytes = values.size() * sizeof(float);
  formats::write_safetensors(
      folder_ / "items.safetensors",
      std::vector<formats::TensorView>{
          {"vectors", "F32", {kNumItems + 1, kWidth}, values.data(), bytes}});
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (31, 6), }\n";
  std::ofstream npy(folder_ / "items.npy", std::ios::binary);
  npy << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
  npy.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(bytes));
  npy.close();
  for (const char* file : {"items.safetensors", "items.npy"}) {
    ASSERT_EQ(train(fmt::format("--pretrained_embeddings item_id-list={}", file)), 0) << output_;
    EXPECT_TRUE(at::allclose(weight(kItemTable).narrow(0, 1, kNumItems), expected(), 0, 1e-6))
        << file;
  }
}

TEST_F(PretrainedVectors, FollowTheRawIdsOfAFeature) {
  const auto names = prepare::ItemNames::load(folder_ / "syn/category.parquet");
  std::vector<std::string> raw_ids;
  std::vector<std::vector<float>> vectors;
  for (int64_t id = names.size(); id >= 1; --id) {
    raw_ids.push_back(names.raw_id(id));
    vectors.push_back({first(id), 2, 3});
  }
  pq::write_parquet(folder_ / "kinds.parquet",
                    {{"kind", pq::words(raw_ids)}, {"vector", pq::float_lists(vectors)}});
  ASSERT_EQ(train("--pretrained_embeddings category-list=kinds.parquet"), 0) << output_;
  const auto table = weight("embeddings.category-list.weight");
  ASSERT_EQ(table.sizes(), (at::IntArrayRef{names.size() + 1, 3}));
  for (int64_t id = 1; id <= names.size(); ++id) {
    EXPECT_EQ(table[id][0].item<float>(), first(id));
  }
}

TEST_F(PretrainedVectors, AreRefusedBeforeTrainingWhereTheyDoNotFit) {
  auto some = all_items();
  some.erase(some.begin(), some.begin() + 2);
  write_parquet(some, "some.parquet");
  write_parquet(all_items());
  const std::string option = "--pretrained_embeddings ";
  expect_refused(option + "item_id-list=some.parquet",
                 "has no vector of 2 of the 30 values of 'item_id-list', such as '" + raw(29));
  expect_refused(option + "item_id-list=items.parquet --item_embedding_dim 8",
                 "has vectors of 6 numbers for 'item_id-list', whose embedding is 8 wide by "
                 "model.item_embedding_dim");
  expect_refused(option + "item_id-list=items.parquet --aggregation element-wise-sum",
                 "needs every feature as wide as d_model = 8");
  expect_refused(option + "item=items.parquet", "did you mean 'item_id-list'");
  expect_refused(option + "item_id-list", "expected COLUMN=FILE");
  expect_refused(option + "item_id-list=items.csv", "ends in .parquet, .npy or .safetensors");
  expect_refused(option + "price-list=items.parquet", "no categorical feature");
  expect_refused(option + "item_id-list=none.parquet", "none.parquet");
  expect_refused("--pretrained_trainable true", "try --pretrained_embeddings COLUMN=FILE");
  pq::write_parquet(folder_ / "twice.parquet", {{"raw_id", pq::words({raw(3), raw(3)})},
                                                {"embedding", pq::float_lists({{1, 2}, {3, 4}})}});
  expect_refused(option + "item_id-list=twice.parquet", "has two vectors of '" + raw(3));
  pq::write_parquet(folder_ / "uneven.parquet", {{"raw_id", pq::words({raw(3), raw(4)})},
                                                 {"embedding", pq::float_lists({{1, 2}, {3}})}});
  expect_refused(option + "item_id-list=uneven.parquet", "the embedding of '" + raw(4) + "' in " +
                                                             (folder_ / "uneven.parquet").string() +
                                                             " has 1 number; expected 2 as before");
  pq::write_parquet(folder_ / "bare.parquet", {{"raw_id", pq::words({raw(3)})}});
  expect_refused(option + "item_id-list=bare.parquet", "one of lists of fractions");
}

}  // namespace
}  // namespace convoy
