#include <cmath>

#include "convoy/tasks/session/onnx_layers.h"
#include "tests/tasks/onnx_testing.h"
#include "tests/tasks/recommender_testing.h"

// tests/parity/onnx_parity.py compares the same graphs with onnxruntime's results.
namespace convoy {
namespace {

class ExportOnnx : public RecommenderTest {};

TEST_F(ExportOnnx, GraphsScoreAsThePredictionsDo) {
  auto bodies = tasks::OnnxLayers::bodies();
  for (const char* other : {"gpt2 --temperature 0.5 --item_embedding_dim 4",
                            "gpt2 --weight_tying false", "bert --item_embedding_dim 4"}) {
    bodies.emplace_back(other);
  }
  for (const auto& body : bodies) {
    train(fmt::format("--overwrite_output_dir --model.body {}", body));
    ASSERT_EQ(run("export onnx out --output out.onnx"), 0) << output_;
    expect("wrote      out.onnx (");
    testing_onnx::OnnxModel graph(folder_ / "out.onnx");
    const Recommender recommender(folder_ / "out");
    auto asked = requests(30);
    for (const size_t longest : {1, 4, 9}) {
      auto ids = at::zeros({std::ssize(asked), static_cast<int64_t>(longest)}, at::kLong);
      const auto names = prepare::ItemNames::load(folder_ / "out/items.parquet");
      std::map<std::string, int64_t> id_of;
      for (int64_t id = 1; id <= names.size(); ++id) id_of[names.raw_id(id)] = id;
      for (size_t row = 0; row < asked.size(); ++row) {
        auto& items = asked[row].items;
        asked[row].exclude_seen = false;
        items = requests(30)[row].items;
        items.resize(std::min(items.size(), 1 + row % longest));
        for (size_t i = 0; i < items.size(); ++i) {
          ids[static_cast<int64_t>(row)][static_cast<int64_t>(i)] = id_of.at(items[i]);
        }
      }
      const auto scores = graph.run("item_ids", ids, "scores");
      ASSERT_EQ(scores.sizes(), (std::vector<int64_t>{std::ssize(asked), 31}));
      const auto answers = recommender.recommend(asked);
      for (size_t row = 0; row < asked.size(); ++row) {
        const auto own = scores[static_cast<int64_t>(row)];
        EXPECT_EQ(own[0].item<float>(), -INFINITY);
        ASSERT_EQ(std::ssize(answers[row].items), (own > -INFINITY).sum().item<int64_t>());
        for (const auto& item : answers[row].items) {
          EXPECT_NEAR(own[id_of.at(item.item_id)].item<float>(), item.score, 1e-5) << body;
        }
      }
    }
  }
}

TEST_F(ExportOnnx, UnsupportedModelsAreNamed) {
  train("--model.body xlnet");
  EXPECT_EQ(run("export onnx out --output out.onnx"), 2) << output_;
  expect("the graph of ONNX does not support body = xlnet (it does bert, gpt2, ligr, sasrec)");
  ASSERT_EQ(run("data synthetic --output syn --items 30 --rows 60 --with-features"), 0) << output_;
  train("--overwrite_output_dir");
  EXPECT_EQ(run("export onnx out --output out.onnx"), 2) << output_;
  expect("does not support the feature ");
  EXPECT_FALSE(fs::exists(folder_ / "out.onnx"));
  EXPECT_EQ(run("export onnx out --output syn"), 2) << output_;
  expect("--output syn is a folder; try syn/model.onnx");
}

}  // namespace
}  // namespace convoy
