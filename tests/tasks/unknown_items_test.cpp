#include <fmt/format.h>

#include "convoy/base/error.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/session/known_items.h"
#include "convoy/tasks/session/recommender.h"
#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

const std::string kSmall =
    "train --d_model 8 --n_layer 1 --n_head 2 --per_device_train_batch_size 8 --max_steps 20 "
    "--learning_rate 0.02 --threads 1 ";

TEST(KnownItems, AreSummedAndKeptAsStretches) {
  tasks::KnownItems now({false, false, true, false, false, false, true, false});
  EXPECT_EQ(now.to_json().dump(), "{\"num_ids\":8,\"unseen\":[[1,1],[3,5],[7,7]]}");
  EXPECT_TRUE(now.knows(0));
  EXPECT_FALSE(now.knows(8));
  now.add(tasks::KnownItems({true, true, false, false, true}));
  EXPECT_EQ(now.unseen(), (std::vector<int64_t>{3, 5, 7}));
  now.add(tasks::KnownItems(9));
  EXPECT_TRUE(now.unseen().empty());
}

class UnknownItems : public CommandTest {
 protected:
  /// Users walk round ten items; the last event of some is an item of nobody else.
  void make(const std::string& folder, const std::string& more = "", int first_user = 0,
            int strange = 3) {
    std::string events = "user_id,item_id,timestamp\n";
    for (int user = first_user; user < first_user + 20; ++user) {
      for (int i = 0; i < 8; ++i) events += fmt::format("{},i{},{}\n", user, (user + i) % 10, i);
      if (user < first_user + strange) events += fmt::format("{},rare{},9\n", user, user);
    }
    write_file(folder_ / (folder + ".csv"), events);
    ASSERT_EQ(run("data sessions " + folder + ".csv --output " + folder + " " + more), 0)
        << output_;
  }

  double metric(const std::string& file, const std::string& name) const {
    return json(file).at("eval_" + name).get<double>();
  }

  /// Item ids of a table that predict wrote.
  std::vector<std::string> items_in(const std::string& file) {
    std::vector<std::string> out;
    for (const auto& line : split(read_file(folder_ / file), '\n')) {
      if (!line.empty()) out.push_back(split(line, ',').at(3));
    }
    out.erase(out.begin());
    return out;
  }
};

TEST_F(UnknownItems, AreNoCandidatesAndNoInputAndMissesAsTargets) {
  make("d");
  ASSERT_EQ(run(kSmall + "--data.path d --output_dir out"), 0) << output_;
  expect("3 rows with a target that the model does not know: misses");
  EXPECT_EQ(json("out/unseen_items.json").at("unseen"), Json({{11, 13}}));

  ASSERT_EQ(run("eval out --top_ks 10,13 --json > eval.json"), 0);
  // Ten candidates: every known target is found among ten, and nothing else.
  EXPECT_NEAR(metric("eval.json", "recall_at_10"), 17.0 / 20, 1e-9);
  EXPECT_NEAR(metric("eval.json", "recall_at_13"), 17.0 / 20, 1e-9);

  ASSERT_EQ(run("predict out --top-k 13 --exclude_seen false --output p.csv"), 0) << output_;
  expect("3 items in 3 rows are unknown to the model and passed over");
  const auto items = items_in("p.csv");
  EXPECT_EQ(items.size(), 200U);
  for (const auto& item : items) EXPECT_EQ(item.find("rare"), std::string::npos) << item;

  const tasks::Recommender recommender(folder_ / "out");
  const auto plain =
      recommender.recommend({.items = {"i3", "i4"}, .top_k = 13, .exclude_seen = false});
  const auto with_rare =
      recommender.recommend({.items = {"i3", "i4", "rare1"}, .top_k = 13, .exclude_seen = false});
  EXPECT_EQ(with_rare.unknown, (std::vector<std::string>{"rare1"}));
  ASSERT_EQ(plain.items.size(), 10U);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(plain.items[i].item_id, with_rare.items[i].item_id);
    EXPECT_EQ(plain.items[i].score, with_rare.items[i].score);
  }
  const auto asked = recommender.recommend({.items = {"i3"}, .candidates = {"rare2", "i5"}});
  ASSERT_EQ(asked.items.size(), 1U);
  EXPECT_EQ(asked.unknown, (std::vector<std::string>{"rare2"}));
  EXPECT_TRUE(recommender.recommend({.items = {"rare0"}, .popular = false}).items.empty());
}

TEST_F(UnknownItems, TrainingDoesNotDependOnWhatIsKnown) {
  make("d");
  ASSERT_EQ(run(kSmall + "--logging_steps 1 --data.path d --output_dir out"), 0) << output_;
  fs::rename(folder_ / "d/items.parquet", folder_ / "items.parquet");
  ASSERT_EQ(run(kSmall + "--logging_steps 1 --data.path d --output_dir all"), 0) << output_;
  EXPECT_FALSE(says("does not know")) << "of a foreign folder all ids count as seen";
  EXPECT_FALSE(fs::exists(folder_ / "all/unseen_items.json"));
  EXPECT_EQ(losses("out"), losses("all"));
  ASSERT_EQ(run("eval all --top_ks 13 --json > eval.json"), 0);
  EXPECT_EQ(metric("eval.json", "recall_at_13"), 1);
}

TEST_F(UnknownItems, EveryLayoutAgrees) {
  make("d");
  const auto command = kSmall + "--data.path d --num_train_epochs 1 --loss gbce --n_negatives 4 ";
  ASSERT_EQ(run(command + "--output_dir one"), 0) << output_;
  const auto one = json("one/eval_results.json");
  for (const std::string layout :
       {"--nproc 2", "--nproc 2 --row_tables true", "--nproc 2 --zero 3",
        "--nproc 2 --pipeline_parallel_size 2 --per_device_train_batch_size 8"}) {
    ASSERT_EQ(run(command +
                  "--per_device_train_batch_size 4 --overwrite_output_dir "
                  "--output_dir two " +
                  layout),
              0)
        << layout << output_;
    const auto two = json("two/eval_results.json");
    for (const char* name : {"eval_recall_at_5", "eval_ndcg_at_10", "eval_mrr_at_20"}) {
      EXPECT_NEAR(two.at(name).get<double>(), one.at(name).get<double>(), 1e-6) << layout << name;
    }
    EXPECT_NEAR(two.at("eval_recall_at_20").get<double>(), 17.0 / 20, 1e-9) << layout;
  }
  const auto full = kSmall + "--data.path d --num_train_epochs 1 ";
  ASSERT_EQ(run(full + "--output_dir whole"), 0) << output_;
  ASSERT_EQ(run(full + "--nproc 2 --tensor_parallel_size 2 --output_dir cut"), 0) << output_;
  for (const char* name : {"eval_recall_at_5", "eval_recall_at_20", "eval_mrr_at_20"}) {
    EXPECT_NEAR(json("cut/eval_results.json").at(name).get<double>(),
                json("whole/eval_results.json").at(name).get<double>(), 1e-6);
  }
}

TEST_F(UnknownItems, NewTargetsAreCountedByAnEarlierModel) {
  make("d0", "", 0, 0);
  make("d1", "--ids-from d0", 100, 5);
  ASSERT_EQ(run(kSmall + "--data.path d0 --output_dir r0"), 0) << output_;
  ASSERT_EQ(run("eval r0 --data d1 --top_ks 10 --json > eval.json; cat eval.json"), 0) << output_;
  ASSERT_EQ(run("eval r0 --data d1"), 0) << output_;
  expect("5 rows with a target that the model does not know: misses");
  EXPECT_NEAR(metric("eval.json", "recall_at_10"), 15.0 / 20, 1e-9);
  EXPECT_EQ(metric("eval.json", "samples"), 20);
  ASSERT_EQ(run("predict r0 --data d1 --top-k 20 --exclude_seen false --output p.csv"), 0)
      << output_;
  expect("5 items in 5 rows are unknown to the model and passed over");
  EXPECT_EQ(items_in("p.csv").size(), 200U);
  ASSERT_EQ(run("predict r0 --data d1 --rows 2 --output p.csv"), 0) << output_;
  expect("2 items in 2 rows are unknown to the model and passed over");  // of those that are read

  ASSERT_EQ(run(kSmall + "--data.path d1 --model_name_or_path r0 --output_dir r1"), 0) << output_;
  expect(
      "begins with the weights of r0; 5 of 15 items are new, training sees 0 for the first "
      "time");
  EXPECT_EQ(json("r1/unseen_items.json").at("unseen"), Json({{11, 15}}));

  // An id that the data's own schema does not allow is no new item.
  auto schema = read_file(folder_ / "d1/schema.json");
  const auto at = schema.find("\"15\"");
  ASSERT_NE(at, std::string::npos) << schema;
  write_file(folder_ / "d1/schema.json", schema.replace(at, 4, "\"12\""));
  EXPECT_EQ(run("eval r0 --data d1"), 1);
  expect("expected 0 to 12");
}

TEST_F(UnknownItems, AreSeenOnceAnyWindowHasThem) {
  std::string events = "user_id,item_id,timestamp\n";
  for (int day = 0; day < 3; ++day) {
    for (int user = 0; user < 12; ++user) {
      for (int i = 0; i < 5; ++i) {
        // Day 0 has items 0 to 9, day 1 some of these and 10, day 2 those of day 0 and 11.
        const int item = day == 1 && i == 2 ? 10 : day == 2 && i == 4 ? 11 : (user + i) % 10;
        events += fmt::format("{},i{},{}\n", user, item, 1700006400 + 86400 * day + 60 * i);
      }
    }
  }
  write_file(folder_ / "events.csv", events);
  ASSERT_EQ(run("data sessions events.csv --output days --windows day"), 0) << output_;
  ASSERT_EQ(run(kSmall + "--windows days --output_dir out"), 0) << output_;
  const auto raw = prepare::ItemNames::load(folder_ / "days/items.parquet");
  const auto unseen = [&](const std::string& folder) {
    std::vector<std::string> out;
    const auto kept = json(folder + "/unseen_items.json");
    for (const auto& stretch : kept.at("unseen")) {
      for (int64_t id = stretch.at(0); id <= stretch.at(1); ++id) out.push_back(raw.raw_id(id));
    }
    std::sort(out.begin(), out.end());
    return out;
  };
  EXPECT_EQ(unseen("out/0001"), (std::vector<std::string>{"i10", "i11"}));
  EXPECT_EQ(unseen("out/0002"), (std::vector<std::string>{"i11"}));
  expect("12 items in 12 rows are unknown to the model and passed over");
  expect("12 rows with a target that the model does not know: misses");
  expect(
      "begins with the weights of out/0001; 0 of 12 items are new, training sees 1 for the "
      "first time");
}

// Values of other columns have random embeddings, too, where only held-out events have them.
TEST_F(UnknownItems, CategoriesThatTrainingNeverSawAreUnknownToo) {
  std::string events = "user_id,item_id,timestamp,genre\n";
  for (int user = 0; user < 20; ++user) {
    for (int i = 0; i < 8; ++i) {
      // The last event is the target, the one before it ends the input.
      const char* genre = i == 6 && user < 3    ? "opera"
                          : i == 7 && user == 3 ? "zydeco"
                          : i % 2 == 0          ? "left"
                                                : "right";
      events += fmt::format("{},i{},{},{}\n", user, (user + i) % 10, i, genre);
    }
  }
  // In training rows nobody has the opera: rows are cut to the first six events.
  write_file(folder_ / "events.csv", events);
  ASSERT_EQ(run("data sessions events.csv --features genre --output d"), 0) << output_;
  ASSERT_EQ(run(kSmall + "--data.path d --max_length 6 --data.truncation keep_first "
                         "--output_dir out"),
            0)
      << output_;
  const auto unseen = json("out/unseen_items.json");
  EXPECT_EQ(unseen.at("features").at("genre-list").at("unseen"), Json({{3, 4}}));
  const tasks::Recommender recommender(folder_ / "out");
  const auto asked = [&](const std::string& genre) {
    return recommender.recommend(
        {.items = {"i3", "i4"}, .categories = {{"genre-list", {"left", genre}}}, .top_k = 10});
  };
  EXPECT_EQ(asked("opera").unknown, (std::vector<std::string>{"genre-list: opera"}));
  const auto none = asked("jazz"), opera = asked("opera"), right = asked("right");
  ASSERT_EQ(none.items.size(), opera.items.size());
  for (size_t i = 0; i < none.items.size(); ++i) {
    EXPECT_EQ(none.items[i].item_id, opera.items[i].item_id);
    EXPECT_EQ(none.items[i].score, opera.items[i].score);
  }
  EXPECT_NE(none.items[0].score, right.items[0].score);
  ASSERT_EQ(run("predict out --data d --max_length 6 --top-k 3 --output p.csv"), 0) << output_;
  expect("4 values of genre-list are unknown to the model and count as none");
  ASSERT_EQ(run("eval out --data d --max_length 6 --data.truncation keep_last"), 0) << output_;
  expect("3 values of genre-list are unknown");  // not that at a target, which is not read
  ASSERT_EQ(run("eval out --data d --max_length 6"), 0) << output_;
  EXPECT_FALSE(says("of genre-list are unknown")) << "behind what is read";
}

TEST_F(UnknownItems, AreKnownWithVectorsOfTheirOwn) {
  make("d");
  // numpy's form: a header, then the numbers.
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (14, 4), }";
  header.resize(118 - 1, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(118);
  file += '\0';
  file += header;
  for (int i = 0; i < 14 * 4; ++i) {
    const float value = static_cast<float>(i % 7) / 7;
    file.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  write_file(folder_ / "vectors.npy", file);
  ASSERT_EQ(run(kSmall + "--data.path d --pretrained_embeddings item_id-list=vectors.npy "
                         "--output_dir out"),
            0)
      << output_;
  EXPECT_FALSE(says("does not know")) << output_;
  ASSERT_EQ(run("eval out --top_ks 13 --json > eval.json"), 0);
  EXPECT_EQ(metric("eval.json", "recall_at_13"), 1);
}

}  // namespace
}  // namespace convoy
