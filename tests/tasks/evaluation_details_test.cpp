#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/scored_rows.h"
#include "convoy/tasks/session/segments.h"
#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

namespace convoy::tasks {
namespace {

TEST(Bootstrap, IsThePercentilesOfResampledPersons) {
  // Person 0 has two rows. By hand: the same draws in other words.
  Clusters clusters(1);
  const std::vector<std::pair<int64_t, double>> rows{{0, 1}, {0, 0}, {1, 0.5}, {2, 0}, {3, 1}};
  for (const auto& [person, score] : rows) clusters.add(person, std::vector{score});
  EXPECT_DOUBLE_EQ(clusters.means()[0], 0.5);
  constexpr int kSamples = 41;  // so that 2.5 % and 97.5 % are the second and the last but one
  std::vector<double> means;
  for (int sample = 0; sample < kSamples; ++sample) {
    double sum = 0, count = 0;
    for (uint64_t i = 0; i < 4; ++i) {
      const auto drawn = static_cast<int64_t>(uniform01(hash_combine(9, sample), i) * 4);
      for (const auto& [person, score] : rows) {
        sum += person == drawn ? score : 0;
        count += person == drawn ? 1 : 0;
      }
    }
    means.push_back(sum / count);
  }
  std::sort(means.begin(), means.end());
  const auto interval = bootstrap(clusters, kSamples, 9).front();
  EXPECT_DOUBLE_EQ(interval.low, means[1]);
  EXPECT_DOUBLE_EQ(interval.high, means[39]);
  EXPECT_LT(interval.low, interval.high);
  // sqrt(4 / 3 x the sum of (sum - mean x rows)^2) / rows.
  EXPECT_DOUBLE_EQ(clusters.standard_errors()[0], std::sqrt(0.5 * 4 / 3) / 5);
}

TEST(Bootstrap, OneRowAPersonGivesTheUsualStandardError) {
  Clusters clusters(1);
  const std::vector<double> scores{0.1, 0.4, 0, 1, 0.63};
  double mean = 0, squares = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    clusters.add(static_cast<int64_t>(i), std::vector{scores[i]});
    mean += scores[i] / 5;
  }
  for (const double score : scores) squares += (score - mean) * (score - mean);
  EXPECT_NEAR(clusters.standard_errors()[0], std::sqrt(squares / 4 / 5), 1e-15);
  for (int64_t i = 5; i < 60; ++i) {
    clusters.add(i, std::vector{uniform01(3, static_cast<uint64_t>(i))});
  }
  EXPECT_EQ(bootstrap(clusters, 99, 1)[0].low, bootstrap(clusters, 99, 1)[0].low);
  EXPECT_NE(bootstrap(clusters, 99, 1)[0].low, bootstrap(clusters, 99, 2)[0].low);
}

ScoredRows scored(const std::string& run, std::vector<int64_t> ranks) {
  ScoredRows out{.run = run,
                 .data = "valid",
                 .exclude_seen = false,
                 .top_ks = {2, 10},
                 .keys = {},
                 .persons = {},
                 .ranks = std::move(ranks)};
  for (size_t i = 0; i < out.ranks.size(); ++i) {
    out.keys.push_back(i);
    out.persons.push_back(static_cast<int64_t>(i));
  }
  return out;
}

TEST(Comparison, IsRowByRow) {
  const auto a = scored("one", {1, 3, 50, 4}), b = scored("two", {2, 1, 60, 4});
  const auto comparison = compare_rows(a, b, 200, 0);
  const auto told = comparison.to_json();
  const auto& recall = told.at("metrics").at("recall_at_2");
  EXPECT_EQ(recall.at("first"), 0.25);
  EXPECT_EQ(recall.at("second"), 0.5);
  EXPECT_EQ(recall.at("difference"), 0.25);
  EXPECT_EQ(recall.at("better"), 1);
  EXPECT_EQ(recall.at("equal"), 3);
  EXPECT_EQ(recall.at("worse"), 0);
  EXPECT_DOUBLE_EQ(recall.at("difference_stderr"), 0.25);  // of 0, 1, 0, 0
  const auto& mrr = told.at("metrics").at("mrr_at_10");
  EXPECT_DOUBLE_EQ(mrr.at("difference"), (-0.5 + 2.0 / 3) / 4);
  EXPECT_EQ(mrr.at("better"), 1);
  EXPECT_EQ(mrr.at("equal"), 2);
  EXPECT_EQ(mrr.at("worse"), 1);
  EXPECT_LE(mrr.at("interval").at(0), mrr.at("difference"));
  EXPECT_GE(mrr.at("interval").at(1), mrr.at("difference"));
  EXPECT_EQ(compare_rows(a, b, 200, 0).to_json(), told);
  EXPECT_NE(comparison.to_text().find("Recall@2   0.2500  0.5000  +0.2500 +- 0.2500"),
            std::string::npos)
      << comparison.to_text();
}

TEST(Comparison, RefusesOtherRows) {
  const auto a = scored("one", {1, 3, 50, 4});
  auto b = a;
  b.run = "two";
  b.exclude_seen = true;
  const auto refused = [&] { return data::testing::message_of([&] { compare_rows(a, b, 0, 0); }); };
  EXPECT_NE(refused().find("one ranks among all items and two among unseen"), std::string::npos);
  b.exclude_seen = false;
  std::swap(b.keys[0], b.keys[1]);
  EXPECT_NE(refused().find("with other targets or persons"), std::string::npos) << refused();
  b.keys.pop_back();
  EXPECT_NE(refused().find("one is evaluated on 4 rows of valid and two on 3 rows"),
            std::string::npos)
      << refused();
}

TEST(Segments, HaveEachRowOnceInEveryCut) {
  std::vector<TargetRow> rows;
  for (int64_t i = 0; i < 12; ++i) {
    rows.push_back({.row = i,
                    .target = i + 1,
                    .owner = i,
                    .length = std::min<int64_t>(i + 1, 8),
                    .before = 3 * i + 1});
  }
  // Ten candidates, of which two are the head: 5 and 7.
  const std::vector<int64_t> counts{0, 1, 1, 1, 1, 9, 1, 8, 2, 2, 2, 2};
  std::vector<bool> candidates(12, true);
  candidates[11] = false;
  const auto segments = segments_of(rows, counts, candidates);
  std::map<std::string, std::vector<size_t>> by_name;
  for (const auto& segment : segments) by_name[segment.name] = segment.rows;
  EXPECT_EQ(by_name.at("history_up_to_5"), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(by_name.at("history_6_to_20"), (std::vector<size_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(by_name.at("history_over_20"), (std::vector<size_t>{7, 8, 9, 10, 11}));
  EXPECT_EQ(by_name.at("session_up_to_3"), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(by_name.at("head_items"), (std::vector<size_t>{4, 6}));
  EXPECT_EQ(by_name.at("tail_items"), (std::vector<size_t>{0, 1, 2, 3, 5, 7, 8, 9}));
  EXPECT_EQ(by_name.at("unknown_items"), (std::vector<size_t>{10, 11}));
  for (const auto& segment : segments_of(rows, {}, candidates)) {
    EXPECT_EQ(segment.name.find("items"), std::string::npos) << "nobody counted them";
  }
  std::vector<int64_t> ranks(12, 20);
  ranks[4] = 1;
  const auto metrics = segment_metrics(segments, ranks, {5, 10});
  ASSERT_EQ(metrics.size(), segments.size());
  const auto head = std::ranges::find(segments, "head_items", &RowSegment::name) - segments.begin();
  EXPECT_EQ(metrics[static_cast<size_t>(head)].at("rows"), 2);
  EXPECT_EQ(metrics[static_cast<size_t>(head)].at("recall_at_10"), 0.5);
  EXPECT_EQ(metrics[static_cast<size_t>(head) + 1].at("recall_at_10"), 0);  // of tail items
  EXPECT_NE(segments_table(segments, metrics, {5, 10})
                .find("head items, the most frequent 20 %      2  0.5000 +- 0.5000"),
            std::string::npos)
      << segments_table(segments, metrics, {5, 10});
}

/// `convoy eval` of runs on splits.
class Details : public CommandTest {
 protected:
  /// Users who walk round thirty items, each with a kind; some at random.
  void make(const std::string& validation, const std::string& folder = "d") {
    std::string log = "user_id,item_id,timestamp,kind\n";
    for (uint64_t user = 0; user < 60; ++user) {
      const auto events = 4 + mix64(user) % 20;
      uint64_t item = user % 30;
      for (uint64_t i = 0; i < events; ++i) {
        const auto draw = mix64(user * 1000 + i);
        item = draw % 4 == 0 ? draw / 4 % 30 : (item + 1) % 30;
        log += fmt::format("u{},i{},{},k{}\n", user, item, 1000 * i + user, item % 3);
      }
    }
    write_file(folder_ / "log.csv", log);
    ASSERT_EQ(run(fmt::format("data sessions log.csv --output {} --max-length 8 --features kind "
                              "--validation {}",
                              folder, validation)),
              0)
        << output_;
  }

  void train(const std::string& folder, const std::string& more = "") {
    ASSERT_EQ(run("train --data.path d --d_model 16 --n_layer 1 --n_head 2 --threads 1 "
                  "--per_device_train_batch_size 8 --max_steps 40 --learning_rate 0.02 "
                  "--per_device_eval_batch_size 16 --top_ks 3,10 --output_dir " +
                  folder + " " + more),
              0)
        << output_;
  }

  Json eval(const std::string& words) {
    EXPECT_EQ(run("eval " + words + " --json > eval.json"), 0) << output_;
    return json("eval.json");
  }
};

TEST_F(Details, TestRowsAreApartFromThoseOfEarlyStopping) {
  make("leave-last-two");
  expect("test 60 rows of 60 users");
  train("r");
  const auto valid = eval("r"), test = eval("r --split test");
  EXPECT_EQ(json("r/eval_results.json").at("eval_ndcg_at_10"), valid.at("eval_ndcg_at_10"));
  EXPECT_NE(test.at("eval_ndcg_at_10"), valid.at("eval_ndcg_at_10"));
  EXPECT_EQ(eval("r --data d/test.parquet").at("eval_ndcg_at_10"), test.at("eval_ndcg_at_10"));
  EXPECT_EQ(eval("r --data d --split test").at("eval_mrr_at_3"), test.at("eval_mrr_at_3"));
  ASSERT_EQ(run("predict r --split test --output top.csv --top-k 2"), 0) << output_;
  expect("wrote top.csv (60 rows, 2 items each)");
  EXPECT_NE(run("eval r --data d/test.parquet --split test"), 0);
  expect("d/test.parquet is a file");
  fs::remove(folder_ / "d/test.parquet");
  EXPECT_NE(run("eval r --split test"), 0);
  expect("d/test.parquet; convoy data sessions --validation leave-last-two makes one");
}

// All from the lists and ranks that `predict` and the data tell, by other loops.
TEST_F(Details, SayTheSameAsOtherLoopsOverTheirRows) {
  make("ratio:0.6,0.2,0.2");
  train("r", "--exclude_seen true");
  const auto told = eval("r --split test --metrics all --segments --bootstrap 100");
  const auto plain = eval("r --split test");
  for (const auto& [name, value] : plain.items()) {
    if (name.find("_at_") == std::string::npos) continue;
    EXPECT_EQ(told.at(name), value) << name;
  }
  const auto rows = data::testing::read_int_lists(folder_ / "d/test.parquet", "item_id-list");
  double sum = 0, weighted = 0;
  double of_history = 0, of_items = 0;
  for (const auto& [name, segment] : told.at("eval_segments").items()) {
    const auto count = segment.at("rows").get<double>();
    if (name.starts_with("history")) of_history += count;
    if (name.starts_with("history")) continue;
    of_items += count;
    weighted += count * segment.at("ndcg_at_10").get<double>();
  }
  sum = plain.at("eval_ndcg_at_10").get<double>() * static_cast<double>(rows.size());
  EXPECT_EQ(of_history, static_cast<double>(rows.size()));
  EXPECT_EQ(of_items, static_cast<double>(rows.size()));
  EXPECT_NEAR(weighted, sum, 1e-9);
  for (const char* name : {"ndcg_at_10", "recall_at_3", "mrr_at_10"}) {
    const auto interval = told.at("eval_intervals").at(name);
    const auto value = told.at(std::string("eval_") + name).get<double>();
    EXPECT_LT(interval.at(0).get<double>(), value) << name;
    EXPECT_GT(interval.at(1).get<double>(), value) << name;
  }
  for (const char* name : {"coverage", "novelty", "average_popularity", "diversity"}) {
    for (const char* k : {"3", "10"}) {
      EXPECT_GT(told.at(fmt::format("eval_{}_at_{}", name, k)).get<double>(), 0) << name;
    }
  }
  EXPECT_LE(told.at("eval_coverage_at_10").get<double>(), 1);
  EXPECT_LE(told.at("eval_diversity_at_10").get<double>(), 1) << "one column";
  EXPECT_TRUE(told.contains("eval_serendipity_at_3"));
  ASSERT_EQ(run("eval r --split test --metrics all --segments --bootstrap 100"), 0) << output_;
  expect("Average popularity");
  expect("head items, the most frequent 20 %");
  expect("95 % intervals");
}

// The recommended items of a model that hides nothing are those that predict gives for the rows
// without their targets.
TEST_F(Details, RankTheListsThatPredictGives) {
  make("leave-last-two");
  train("r", "--model.body gpt2");
  const auto told = eval("r --metrics all");
  // valid.parquet without its targets, whose lists follow the same histories.
  const auto rows = data::testing::read_int_lists(folder_ / "d/valid.parquet", "item_id-list");
  const auto names = prepare::ItemNames::load(folder_ / "d/items.parquet");
  std::string requests;
  const auto kinds = data::testing::read_int_lists(folder_ / "d/valid.parquet", "kind-list");
  for (size_t i = 0; i < rows.size(); ++i) {
    Json request{{"items", Json::array()}, {"top_k", 10}};
    auto& kind = request["features"]["kind-list"] = Json::array();
    for (size_t j = 0; j + 1 < rows[i].size(); ++j) {
      request["items"].push_back(names.raw_id(rows[i][j]));
      kind.push_back(kinds[i][j]);
    }
    requests += request.dump() + "\n";
  }
  write_file(folder_ / "requests", requests);
  ASSERT_EQ(shell("$convoy predict r --requests --exclude-seen false < requests > answers"), 0)
      << output_;
  std::set<std::string> shown;
  double popular = 0, lists = 0;
  for (const auto& line : split(read_file(folder_ / "answers"), '\n')) {
    if (line.empty()) continue;
    double sum = 0;
    const auto answer = parse_json(line, "answer");
    for (const auto& item : answer.at("items")) {
      const auto raw = item.at("item_id").get<std::string>();
      shown.insert(raw);
      for (int64_t id = 1; id <= names.size(); ++id) {
        if (names.raw_id(id) == raw)
          sum += json("r/item_counts.json").at("counts").at(id).get<double>();
      }
    }
    popular += sum / 10;
    ++lists;
  }
  EXPECT_EQ(lists, static_cast<double>(rows.size()));
  EXPECT_NEAR(told.at("eval_average_popularity_at_10").get<double>(), popular / lists, 1e-9);
  EXPECT_NEAR(told.at("eval_coverage_at_10").get<double>(),
              static_cast<double>(shown.size()) / static_cast<double>(names.size()), 1e-12);
}

TEST_F(Details, HaveTheSameBitsOnTwoRanks) {
  make("ratio:0.6,0.2,0.2");
  train("r");
  const std::string words = "r --split test --metrics all --segments --bootstrap 50";
  auto one = eval(words), two = eval(words + " --nproc 2");
  for (const char* name :
       {"eval_loss", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second"}) {
    one.erase(name);
    two.erase(name);
  }
  EXPECT_EQ(one, two);
}

TEST_F(Details, CompareTwoRuns) {
  make("leave-last-two");
  train("a");
  train("b", "--seed 7 --max_length 5");
  const auto told = eval("a b --split test --bootstrap 100");
  const auto a = eval("a --split test"), b = eval("b --split test");
  EXPECT_EQ(told.at("rows"), 60);
  EXPECT_EQ(told.at("persons"), 60);
  for (const char* name : {"ndcg_at_3", "recall_at_10", "mrr_at_10"}) {
    const auto& entry = told.at("metrics").at(name);
    const auto key = std::string("eval_") + name;
    EXPECT_NEAR(entry.at("first").get<double>(), a.at(key).get<double>(), 1e-12) << name;
    EXPECT_NEAR(entry.at("second").get<double>(), b.at(key).get<double>(), 1e-12) << name;
    EXPECT_NEAR(entry.at("difference").get<double>(),
                b.at(key).get<double>() - a.at(key).get<double>(), 1e-12);
    EXPECT_EQ(entry.at("better").get<int64_t>() + entry.at("equal").get<int64_t>() +
                  entry.at("worse").get<int64_t>(),
              60);
  }
  const auto same = eval("a a");
  EXPECT_EQ(same.at("metrics").at("ndcg_at_10").at("equal"), 60);
  EXPECT_EQ(same.at("metrics").at("ndcg_at_10").at("difference"), 0);
  ASSERT_EQ(run("eval a b"), 0) << output_;
  expect("first: a second: b 60 rows of 60 persons, the same for both");
  make("leave-last-out", "other");
  train("c", "--data.path other");
  EXPECT_NE(run("eval a c"), 0);
  expect("expected the same rows; try --data FOLDER for both");
  train("e", "--exclude_seen true");
  EXPECT_NE(run("eval a e"), 0);
  expect("their metrics do not compare; try --exclude_seen true or false for both");
  EXPECT_EQ(run("eval a e --exclude_seen true"), 0) << output_;
  EXPECT_NE(run("eval a b --segments"), 0);
  expect("are of one run, and two are named");
}

TEST_F(Details, AreForSessionModels) {
  write_file(folder_ / "t.txt", "a b c d e f g h i j k l m n o p\n");
  ASSERT_EQ(run("train --family gpt2 --random_tokens 640 --vocab_size 32 --n_embd 8 --n_layer 1 "
                "--n_head 2 --block_size 8 --max_steps 1 --threads 1 --output_dir g"),
            0)
      << output_;
  EXPECT_NE(run("eval g --segments"), 0);
  expect("are for session models; got a");
  EXPECT_NE(run("eval g --split test"), 0);
  expect("--split test is for session models; got a");
}

}  // namespace
}  // namespace convoy::tasks
