#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "convoy/base/error.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/session/item_tower_values.h"
#include "convoy/tasks/session/recommender.h"
#include "tests/cli/command_testing.h"
#include "tests/tasks/onnx_testing.h"

namespace convoy {
namespace {

const std::string kTowerRun =
    "train --d_model 8 --n_layer 1 --n_head 2 --per_device_train_batch_size 8 --max_steps 60 "
    "--learning_rate 0.02 --threads 1 ";

/// Five items, of which training saw the first two, and the model has a row for four.
prepare::ItemFeatures five_items() {
  prepare::ItemFeatures out;
  out.features.push_back({.name = "genre",
                          .values = {"a", "b", "c"},
                          .ids = {1, 2, 2, 3, 3, 1},
                          .ends = {1, 2, 4, 5, 6}});  // a; b; b and c; c; a
  out.features.push_back({.name = "price",
                          .kind = prepare::ItemKind::Continuous,
                          .numbers = {1, 5, 7},
                          .ends = {1, 2, 3, 3, 3}});
  out.features.push_back({.name = "picture",
                          .kind = prepare::ItemKind::Vector,
                          .width = 2,
                          .numbers = {3, 4, 5, 6},
                          .ends = {2, 2, 2, 4, 4}});
  return out;
}

TEST(ItemTowerValues, AreOfWhatTrainingSaw) {
  models::SessionConfig model;
  model.item_feature = "item";
  model.features = {{"item", true, 5}};
  model.item_tower = {{"genre", 4}, {"price", 0, 1}, {"picture", 0, 2}};
  const tasks::KnownItems trained({true, true, true, false, false});
  tasks::measure_item_numbers(five_items(), trained, model);
  EXPECT_EQ(model.item_tower[1].mean, 3);
  EXPECT_EQ(model.item_tower[1].deviation, 2);
  EXPECT_EQ(model.item_tower[2].mean, 0) << "vectors are taken as they are";
  const auto [values, told] = tasks::item_tower_values(model, five_items(), trained);
  EXPECT_TRUE(at::equal(values->trained, at::tensor({1, 1, 1, 0, 0, 0}).to(at::kBool)));
  // No item that training saw has c.
  EXPECT_TRUE(at::equal(values->categories.at("genre").squeeze(1),
                        at::tensor({0, 1, 2, 2, 0, 1}, at::kLong)));
  // All that training saw have a price, and one of them no picture.
  EXPECT_TRUE(at::equal(values->numbers, at::tensor({0.F,  0.F, 0.F, 0.F, 0.F,  //
                                                     -1.F, 0.F, 3.F, 4.F, 0.F,  //
                                                     1.F,  0.F, 0.F, 0.F, 1.F,  //
                                                     2.F,  0.F, 0.F, 0.F, 1.F,  //
                                                     0.F,  0.F, 5.F, 6.F, 0.F,  //
                                                     0.F,  0.F, 0.F, 0.F, 1.F})
                                             .view({6, 5})));
  EXPECT_EQ(told.by_id(), (std::vector<bool>{true, true, true, true, true, true}));
  model.item_tower = {{"genre", 2}};  // a alone has a row
  const auto fewer = tasks::item_tower_values(model, five_items(), trained);
  EXPECT_EQ(fewer.told.by_id(), (std::vector<bool>{true, true, false, false, false, true}));
}

class ItemTowers : public CommandTest {
 protected:
  /// Users walk round ten items; the last event of the first three users is an item of nobody else,
  /// of which the third has no features. `eve` has no event.
  void make(const std::string& folder, const std::string& more = "", int first_user = 0) {
    std::string events = "user_id,item_id,timestamp\n";
    for (int user = first_user; user < first_user + 20; ++user) {
      for (int i = 0; i < 8; ++i) events += fmt::format("{},i{},{}\n", user, (user + i) % 10, i);
      if (user < first_user + 3) events += fmt::format("{},rare{},9\n", user, user);
    }
    write_file(folder_ / (folder + ".csv"), events);
    std::string items = "item_id,genre,price\n";
    for (int i = 0; i < 10; ++i) items += fmt::format("i{},g{}|g{},{}\n", i, i, i / 2 + 20, i);
    for (int user = first_user; user < first_user + 2; ++user) {
      items += fmt::format("rare{},g{}|g{},\n", user, (user + 8) % 10, (user + 8) % 10 / 2 + 20);
    }
    write_file(folder_ / (folder + ".items.csv"), items + "eve,g3|g21,3\n");
    ASSERT_EQ(run(fmt::format("data sessions {0}.csv --output {0} --items {0}.items.csv "
                              "--item-tower genre:split,price {1}",
                              folder, more)),
              0)
        << output_;
  }

  double metric(const std::string& file, const std::string& name) const {
    return json(file).at("eval_" + name).get<double>();
  }

  static bool recommends(const tasks::RecommendationAnswer& answer, const std::string& item) {
    return std::ranges::any_of(answer.items, [&](const auto& one) { return one.item_id == item; });
  }
};

TEST_F(ItemTowers, RankItemsThatTrainingNeverSaw) {
  make("d");
  expect("item tower 13 of 14 items have features; 1 of the table have no event");
  ASSERT_EQ(run(kTowerRun + "--data.path d --item_tower genre,price --output_dir out"), 0)
      << output_;
  expect("1 row with a target that the model does not know: misses");
  EXPECT_EQ(json("out/unseen_items.json").at("unseen"), Json({{11, 14}}));
  ASSERT_EQ(run("eval out --top_ks 2,13 --segments --json > eval.json"), 0);
  // 13 candidates: all but the one without features.
  EXPECT_NEAR(metric("eval.json", "recall_at_13"), 19.0 / 20, 1e-9);
  const auto segments = json("eval.json").at("eval_segments");
  EXPECT_EQ(segments.at("unknown_items").at("rows"), 3);
  EXPECT_NEAR(segments.at("unknown_items").at("recall_at_13").get<double>(), 2.0 / 3, 1e-9);
  // Both of these have the genres of the item that follows the eighth on the round.
  EXPECT_GT(segments.at("unknown_items").at("recall_at_2").get<double>(), 0.6);
  ASSERT_EQ(run("predict out --top-k 14 --exclude_seen false --output p.csv"), 0) << output_;
  const auto text = read_file(folder_ / "p.csv");
  EXPECT_NE(text.find("rare1"), std::string::npos);
  EXPECT_EQ(text.find("rare2"), std::string::npos);

  const tasks::Recommender recommender(folder_ / "out");
  const auto answer =
      recommender.recommend({.items = {"i3", "rare0"}, .top_k = 14, .exclude_seen = false});
  EXPECT_TRUE(answer.unknown.empty());
  EXPECT_EQ(answer.items.size(), 13U);
  EXPECT_TRUE(recommends(answer, "eve"));
  EXPECT_EQ(recommender.recommend({.items = {"rare2", "i1"}}).unknown,
            (std::vector<std::string>{"rare2"}));
  EXPECT_EQ(recommender.item_vectors().item_ids.size(), 13U);
}

TEST_F(ItemTowers, RankTonightsItemsWithYesterdaysModel) {
  make("d");
  ASSERT_EQ(run(kTowerRun + "--data.path d --item_tower genre,price --output_dir out"), 0)
      << output_;
  make("later", "--ids-from d", 20);
  const auto same = json("out/config.json");
  ASSERT_EQ(run("eval out --data later --top_ks 17 --json > eval.json"), 0) << output_;
  EXPECT_NEAR(metric("eval.json", "recall_at_17"), 19.0 / 20, 1e-9);
  ASSERT_EQ(run("predict out --data later --top-k 17 --exclude_seen false --output p.csv"), 0)
      << output_;
  const auto text = read_file(folder_ / "p.csv");
  EXPECT_NE(text.find("rare21"), std::string::npos);
  EXPECT_EQ(text.find("rare22"), std::string::npos);
  const tasks::Recommender recommender(folder_ / "out", at::kCPU, folder_ / "later");
  const auto answer =
      recommender.recommend({.items = {"i3", "rare20"}, .top_k = 20, .exclude_seen = false});
  EXPECT_TRUE(answer.unknown.empty());
  EXPECT_TRUE(recommends(answer, "rare21"));
  const tasks::Recommender of_run(folder_ / "out");
  EXPECT_EQ(of_run.recommend({.items = {"i3", "rare20"}}).unknown,
            (std::vector<std::string>{"rare20"}));
  // A run that goes on has them in its own embedding.
  ASSERT_EQ(run("train out/run.toml --data.path later --model_name_or_path out --max_steps 5 "
                "--output_dir next"),
            0)
      << output_;
  EXPECT_EQ(json("next/config.json").at("item_tower").at(1), same.at("item_tower").at(1));
  EXPECT_EQ(json("next/config.json").at("item_tower").at(0).at("name"), "genre");
  EXPECT_NE(run("data sessions later.csv --output less --ids-from d --items later.items.csv "
                "--item-tower genre:split"),
            0);
  expect("--item-tower does not name 'price', which d/item_features.json has of all items");
  ASSERT_EQ(run("data sessions later.csv --output other --items later.items.csv --item-tower "
                "genre:split,price"),
            0);
  EXPECT_NE(run("eval out --data other"), 0);
  expect("expected ids that keep their numbers");
}

TEST_F(ItemTowers, AreExportedAsAGraph) {
  make("d");
  ASSERT_EQ(run(kTowerRun + "--data.path d --item_tower genre,price --output_dir out"), 0)
      << output_;
  ASSERT_EQ(run("export onnx out --output out.onnx"), 0) << output_;
  const auto names = prepare::ItemNames::load(folder_ / "out/items.parquet");
  std::map<std::string, int64_t> ids;
  for (int64_t id = 1; id <= names.size(); ++id) ids[names.raw_id(id)] = id;
  testing_onnx::OnnxModel graph(folder_ / "out.onnx");
  const auto session = at::tensor({ids.at("i3"), ids.at("rare0"), ids.at("i4")}, at::kLong);
  const auto scores = graph.run("item_ids", session.view({1, 3}), "scores")[0];
  const auto answer =
      tasks::Recommender(folder_ / "out")
          .recommend({.items = {"i3", "rare0", "i4"}, .top_k = 14, .exclude_seen = false});
  ASSERT_EQ(answer.items.size(), 13U);
  EXPECT_EQ((scores > -INFINITY).sum().item<int64_t>(), 13);
  for (const auto& item : answer.items) {
    EXPECT_NEAR(scores[ids.at(item.item_id)].item<float>(), item.score, 1e-5) << item.item_id;
  }
}

TEST_F(ItemTowers, ResumeWithTheSameFeaturesAlone) {
  make("d");
  const auto command = kTowerRun +
                       "--data.path d --item_tower genre,price --item_id_dropout 0.2 "
                       "--logging_steps 1 ";
  ASSERT_EQ(run(command + "--output_dir whole"), 0) << output_;
  ASSERT_EQ(run(command + "--save_steps 30 --stop_steps 30 --output_dir out"), 0) << output_;
  ASSERT_EQ(run(command + "--resume_from_checkpoint latest --output_dir out"), 0) << output_;
  EXPECT_EQ(losses("out"), losses("whole"));
  EXPECT_EQ(model_of("out"), model_of("whole"));
  auto items = read_file(folder_ / "d.items.csv");
  const std::string was = "i3,g3|g21,3";
  ASSERT_NE(items.find(was), std::string::npos);
  write_file(folder_ / "d.items.csv", items.replace(items.find(was), was.size(), "i3,g4|g21,3"));
  ASSERT_EQ(
      run("data sessions d.csv --output d --items d.items.csv --item-tower genre:split,price"), 0);
  EXPECT_NE(run(command + "--resume_from_checkpoint latest --max_steps 70 --output_dir out"), 0);
  expect("the same ids would stand for something else");
}

TEST_F(ItemTowers, GoOnFromWindowToWindow) {
  std::string events = "user_id,item_id,timestamp\n";
  for (int day = 0; day < 3; ++day) {
    for (int user = 0; user < 12; ++user) {
      for (int i = 0; i < 5; ++i) {
        events += fmt::format("{},i{},{}\n", user, (user + i) % 6, day * 86400 + i);
      }
      if (day > 0) events += fmt::format("{},late,{}\n", user, day * 86400 + 9);
    }
  }
  write_file(folder_ / "log.csv", events);
  write_file(folder_ / "items.csv",
             "item_id,genre,price\ni0,a,1\ni1,b,2\ni2,a,4\ni3,b,8\ni4,a,16\ni5,b,\nlate,b,90\n");
  ASSERT_EQ(run("data sessions log.csv --output w --windows day --items items.csv "
                "--item-tower genre,price"),
            0)
      << output_;
  ASSERT_EQ(run(kTowerRun + "--windows w --item_tower genre,price --exclude_seen false "
                            "--top_ks 7 --output_dir out"),
            0)
      << output_;
  EXPECT_EQ(json("out/0001/config.json").at("item_tower"),
            json("out/0002/config.json").at("item_tower"))
      << "numbers are scaled by what the first window saw";
  EXPECT_EQ(json("out/0001/unseen_items.json").at("unseen"), Json({{7, 7}}));
  EXPECT_EQ(json("out/0002/unseen_items.json").at("unseen"), Json::array());
  // All rows of the second window end in what the first has not seen, and are ranked.
  EXPECT_EQ(json("out/0001/eval_results.json").at("eval_recall_at_7"), 1);
}

TEST_F(ItemTowers, EvaluateAlikeInEveryLayout) {
  make("d");
  const auto command = kTowerRun + "--data.path d --item_tower genre,price --max_steps 10 ";
  ASSERT_EQ(run(command + "--output_dir one"), 0) << output_;
  const auto one = json("one/eval_results.json");
  for (const std::string layout : {"--nproc 2", "--nproc 2 --zero 3",
                                   "--nproc 2 --pipeline_parallel_size 2 "
                                   "--per_device_train_batch_size 8"}) {
    ASSERT_EQ(run(command +
                  "--per_device_train_batch_size 4 --overwrite_output_dir --output_dir "
                  "two " +
                  layout),
              0)
        << layout << output_;
    const auto two = json("two/eval_results.json");
    for (const char* name : {"eval_recall_at_5", "eval_ndcg_at_10", "eval_mrr_at_20"}) {
      EXPECT_NEAR(two.at(name).get<double>(), one.at(name).get<double>(), 1e-6) << layout << name;
    }
  }
}

TEST_F(ItemTowers, RefuseWhatTheyDoNotGoWith) {
  make("d");
  const auto refused = [&](const std::string& options, const std::string& message) {
    EXPECT_NE(run(kTowerRun + "--data.path d --output_dir out " + options), 0) << options;
    expect(message);
  };
  refused("--item_tower colour", "model.item_tower has 'colour', which item_features.parquet does");
  refused("--item_tower genre,genre", "has 'genre' twice");
  refused("--item_id_dropout 0.1", "model.item_id_dropout has no effect without features of items");
  refused("--item_tower genre --weight_tying false", "try weight_tying = true");
  refused("--item_tower genre --sampled_softmax true --max_n_samples 5 --row_tables true",
          "row_tables = true");
  refused("--item_tower genre --nproc 2 --tensor_parallel_size 2", "tensor");
  ASSERT_EQ(run("data sessions d.csv --output plain"), 0);
  EXPECT_NE(run(kTowerRun + "--data.path plain --item_tower genre --output_dir out"), 0);
  expect("try convoy data sessions --items FILE --item-tower genre");
}

}  // namespace
}  // namespace convoy
