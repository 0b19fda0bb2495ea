#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/models/session/session_bodies.h"
#include "convoy/prepare/items.h"
#include "tests/tasks/recommender_testing.h"

namespace convoy {
namespace {

TEST_F(RecommenderTest, SaysWhatPredictSays) {
  // The model reads the last four items of a session, and leaves all of them out.
  for (const char* body : {"gpt2 --weight_tying false", "xlnet --masking plm",
                           "gpt2 --max_length 4", "bert --max_length 4"}) {
    train(fmt::format("--overwrite_output_dir --model.body {}", body));
    for (const bool exclude : {false, true}) {
      ASSERT_EQ(run(fmt::format("predict out --top_k 4 --output told.jsonl {}",
                                exclude ? "--exclude_seen" : "")),
                0)
          << output_;
      std::map<int64_t, std::vector<std::pair<std::string, float>>> told;
      std::ifstream file(folder_ / "told.jsonl");
      for (std::string line; std::getline(file, line);) {
        const auto entry = parse_json(line, "told.jsonl");
        told[entry["row"]].emplace_back(entry["item_id"], entry["score"]);
      }
      auto asked = requests();
      for (auto& request : asked) request.exclude_seen = exclude;
      const Recommender recommender(folder_ / "out");
      const auto answers = recommender.recommend(asked);
      ASSERT_EQ(answers.size(), told.size());
      for (size_t row = 0; row < answers.size(); ++row) {
        const auto& expected = told[static_cast<int64_t>(row)];
        ASSERT_EQ(answers[row].items.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(answers[row].items[i].item_id, expected[i].first) << row;
          EXPECT_NEAR(answers[row].items[i].score, expected[i].second, 1e-4);
        }
      }
    }
  }
}

TEST_F(RecommenderTest, AnswersManyThreadsAndTakesNewCheckpointsBetweenRequests) {
  train();
  Recommender recommender(folder_ / "out/checkpoint-15");
  const auto asked = requests();
  const auto first = [&] {
    std::vector<std::string> out;
    for (const auto& request : asked)
      out.push_back(recommender.recommend(request).to_json().dump());
    return out;
  };
  const auto old = first();
  recommender.load(folder_ / "out");
  const auto fresh = first();
  EXPECT_NE(old, fresh);
  std::atomic<int64_t> strange = 0;
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!over) {
        for (size_t row = 0; row < 10; ++row) {
          const auto said = recommender.recommend(asked[row]).to_json().dump();
          strange += said != old[row] && said != fresh[row];
        }
      }
    });
  }
  for (int i = 0; i < 6; ++i)
    recommender.load(folder_ / (i % 2 == 0 ? "out/checkpoint-15" : "out"));
  over = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(strange, 0);
  EXPECT_THROW(recommender.load(folder_ / "nowhere"), FileError);
  EXPECT_EQ(first(), fresh) << "the model that was there stays";
}

double median_ms(int64_t times, const std::function<void()>& work) {
  std::vector<double> out;
  for (int64_t i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    out.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::nth_element(out.begin(), out.begin() + times / 2, out.end());
  return out[static_cast<size_t>(times / 2)];
}

// A benchmark: for a machine with nothing else to do.
TEST_F(RecommenderTest, DISABLED_TakesLittleMoreThanAPassOverTheTable) {
  at::set_num_threads(1);
  ASSERT_EQ(run("data synthetic --output syn --items 500000 --rows 200 --min-length 20"), 0);
  ASSERT_EQ(run("train --data.path syn --d_model 64 --sampled_softmax true --max_steps 1 "
                "--save_strategy no --eval_strategy no --output_dir out"),
            0)
      << output_;
  fs::remove(folder_ / "out/unseen_items.json");  // as if training had seen all of them
  const Recommender recommender(folder_ / "out");
  auto asked = requests(10);
  size_t next = 0;
  const auto one = [&] { recommender.recommend(asked[next++ % asked.size()]); };
  const auto table = at::randn({500000, 64});
  const auto state = at::randn({64});
  at::Tensor scores;
  const auto pass = [&] { scores = at::mv(table, state); };
  median_ms(20, one);
  median_ms(20, pass);
  const double request = median_ms(200, one), through = median_ms(200, pass);
  std::printf("p50 of a request %.2f ms, a pass over the table %.2f ms, %.2fx\n", request, through,
              request / through);
  for (auto& some : asked) {
    for (int id = 1; id <= 100; ++id) some.candidates.push_back(fmt::format("item-{}", id * 4999));
  }
  const double few = median_ms(200, one);
  for (auto& some : asked) some.candidates.clear();
  while (asked.size() < 64) asked.push_back(asked[next++ % asked.size()]);
  asked.resize(64);
  const double batch = median_ms(20, [&] { recommender.recommend(asked); });
  std::printf("p50 with 100 candidates %.3f ms; %.0f a second in batches of 64\n", few,
              64e3 / batch);
  EXPECT_LE(request, 1.3 * through);
}

TEST_F(RecommenderTest, UnknownItemsAreToldAndCandidatesChosenFrom) {
  train();
  const Recommender recommender(folder_ / "out");
  EXPECT_EQ(recommender.num_items(), 30);
  const auto plain =
      recommender.recommend(RecommendationRequest{.items = {raw(3), raw(9)}, .top_k = 30});
  ASSERT_EQ(plain.items.size(), 30);
  const auto with = recommender.recommend(RecommendationRequest{
      .items = {raw(3), "nobody", raw(9)}, .candidates = {raw(7), raw(12), "none"}});
  EXPECT_EQ(with.unknown, (std::vector<std::string>{"nobody", "none"}));
  ASSERT_EQ(with.items.size(), 2);
  for (const auto& item : with.items) {
    const auto same = std::find_if(plain.items.begin(), plain.items.end(), [&](const auto& other) {
      return other.item_id == item.item_id;
    });
    ASSERT_NE(same, plain.items.end());
    EXPECT_NEAR(item.score, same->score, 1e-6);
  }
  const auto nothing =
      recommender.recommend(RecommendationRequest{.items = {"nobody"}, .popular = false});
  EXPECT_TRUE(nothing.items.empty());
  EXPECT_THROW(recommender.recommend(RecommendationRequest{.items = {raw(3)}, .top_k = 0}),
               UsageError);
  EXPECT_THROW(
      recommender.recommend(RecommendationRequest{.items = {raw(3)}, .features = {{"price", {1}}}}),
      UsageError);
}

TEST_F(RecommenderTest, LinesOfAPipeAreAnsweredOneByOne) {
  train();
  write_file(
      folder_ / "requests",
      Json{{"items", {raw(3), raw(9)}}, {"top_k", 2}}.dump() +
          "\n\nnonsense\n{\"items\": [], \"popular\": false}\n{\"items\": [\"3\"], \"tops\": 1}\n"
          "{\"items\": [3], \"top_k\": \"many\"}\n");
  ASSERT_EQ(shell("$convoy predict out --requests < requests > answers"), 0) << output_;
  std::ifstream file(folder_ / "answers");
  std::vector<Json> answers;
  for (std::string line; std::getline(file, line);) answers.push_back(parse_json(line, "answers"));
  ASSERT_EQ(answers.size(), 6) << "one for each line, also the empty one";
  const auto same = Recommender(folder_ / "out")
                        .recommend(RecommendationRequest{.items = {raw(3), raw(9)}, .top_k = 2});
  ASSERT_EQ(answers[0]["items"].size(), 2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answers[0]["items"][i]["item_id"], same.items[i].item_id);
    EXPECT_NEAR(answers[0]["items"][i]["score"].get<double>(), same.items[i].score, 1e-5);
  }
  EXPECT_TRUE(answers[1].contains("error"));
  EXPECT_TRUE(answers[2].contains("error"));
  EXPECT_TRUE(answers[3]["items"].empty());
  EXPECT_EQ(answers[3]["note"], "the request has no items: nothing is recommended");
  EXPECT_NE(answers[4]["error"].get<std::string>().find("has the key \"tops\""), std::string::npos);
  EXPECT_NE(answers[5]["error"].get<std::string>().find("expected a whole number"),
            std::string::npos);
  EXPECT_EQ(run("predict out --requests --output x.csv"), 2);
  expect("--output has no effect");
  EXPECT_EQ(run("predict out --requests --nproc 2"), 2);
  expect("without --nproc");
}

TEST_F(RecommenderTest, APipeTakesNewCheckpointsBetweenRequests) {
  train();
  const Json request{{"items", {raw(3), raw(9)}}};
  const auto line = request.dump() + "\n";
  write_file(folder_ / "requests",
             line + "{\"load\": \"out\"}\n" + line + "{\"load\": \"nowhere\"}\n" + line);
  ASSERT_EQ(
      shell("$convoy predict out/checkpoint-15 --requests --top-k 3 --exclude-seen < requests "
            "> answers"),
      0)
      << output_;
  std::ifstream file(folder_ / "answers");
  std::vector<Json> answers;
  for (std::string text; std::getline(file, text);) answers.push_back(parse_json(text, "answers"));
  ASSERT_EQ(answers.size(), 5);
  const RecommendationRequest same{.items = {raw(3), raw(9)}, .top_k = 3, .exclude_seen = true};
  const auto expect_same = [&](const Json& answer, const char* folder) {
    const auto told = Recommender(folder_ / folder).recommend(same);
    ASSERT_EQ(answer.at("items").size(), 3);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(answer.at("items")[i].at("score").get<float>(), told.items[i].score, 1e-5);
    }
  };
  expect_same(answers[0], "out/checkpoint-15");
  EXPECT_EQ(answers[1].at("loaded"), "out");
  expect_same(answers[2], "out");
  EXPECT_TRUE(answers[3].contains("error"));
  EXPECT_EQ(answers[4], answers[2]) << "the model that was there stays";
}

TEST_F(RecommenderTest, ItemsThatNoPositionIsLeftForAreSeenToo) {
  train("--data.max_length 4");
  RecommendationRequest request{.top_k = 30, .exclude_seen = true};
  for (int64_t id = 1; id <= 6; ++id) request.items.push_back(raw(id));
  const Recommender recommender(folder_ / "out");
  // Of 30 items less the request's, those that rows of four show to the training.
  const auto unseen = json("out/unseen_items.json").at("unseen");
  int64_t num_unseen = 0;
  for (const auto& stretch : unseen) {
    num_unseen += stretch.at(1).get<int64_t>() - stretch.at(0).get<int64_t>() + 1;
  }
  EXPECT_EQ(recommender.recommend(request).items.size(), 24U - num_unseen);
  auto last = request;
  last.items.erase(last.items.begin(), last.items.begin() + 2);
  last.exclude_seen = request.exclude_seen = false;
  const auto whole = recommender.recommend(request), end = recommender.recommend(last);
  ASSERT_EQ(whole.items.size(), end.items.size());
  for (size_t i = 0; i < end.items.size(); ++i) {
    EXPECT_EQ(whole.items[i].item_id, end.items[i].item_id);
  }
}

// The rank of the last item after the others of its session, whatever the model learns by: of
// sessions that are shorter than the model's length, and of some that fill it and more.
TEST_F(RecommenderTest, RanksWhatAnEvaluationRanks) {
  constexpr int64_t kItems = 30;
  constexpr size_t kShort = 6;
  make_sessions(100);
  std::vector<std::pair<std::string, size_t>> cases;
  std::vector<std::string> kinds{"bert --attend_padding true"};
  for (const auto& body :
       models::bodies_with([](const models::SessionBody& one) { return !one.reads_times; })) {
    for (const auto& masking : models::session_body(body).maskings) {
      kinds.push_back(body + " --masking " + masking);
    }
  }
  for (const auto& model : kinds) {
    for (const size_t length : {size_t{30}, kShort}) cases.emplace_back(model, length);
  }
  for (const auto& [model, length] : cases) {
    train(
        fmt::format("--overwrite_output_dir --top_ks 1,2,3,5,8,13,21,30 --max_length {} "
                    "--model.body {}",
                    length, model));
    ASSERT_EQ(run("eval out"), 0) << output_;
    const auto evaluated = json("out/eval_results.json");
    auto asked = requests(kItems);
    std::vector<std::string> targets;
    const bool reads_all = model.starts_with("xlnet");
    size_t longest = 0;
    for (auto& request : asked) {
      targets.push_back(request.items.back());
      request.items.pop_back();
      longest = std::max(longest, request.items.size());
      // An evaluation has one item less before the target than these read.
      if (reads_all && request.items.size() >= length) {
        request.items.erase(request.items.begin(), request.items.end() - (kShort - 1));
      }
    }
    ASSERT_GE(longest, kShort + 3) << "sessions fill the model";
    const auto answers = Recommender(folder_ / "out").recommend(asked);
    for (size_t row = 0; row < answers.size(); ++row) {
      const auto given = std::ssize(asked[row].items);
      EXPECT_EQ(answers[row].num_cut,
                std::max<int64_t>(0, given - static_cast<int64_t>(length) + (reads_all ? 0 : 1)));
    }
    std::vector<size_t> ranks;
    for (size_t row = 0; row < answers.size(); ++row) {
      const auto& items = answers[row].items;
      const auto found = std::ranges::find(items, targets[row], &tasks::RecommendedItem::item_id);
      ranks.push_back(static_cast<size_t>(found - items.begin()) + 1);
    }
    for (const size_t k : {1, 2, 3, 5, 8, 13, 21, 30}) {
      double ndcg = 0, recall = 0;
      for (const size_t rank : ranks) {
        recall += rank <= k;
        if (rank <= k) ndcg += 1 / std::log2(1 + static_cast<double>(rank));
      }
      const auto count = static_cast<double>(ranks.size());
      EXPECT_NEAR(evaluated.at(fmt::format("eval_recall_at_{}", k)), recall / count, 1e-6)
          << model << " at " << k;
      EXPECT_NEAR(evaluated.at(fmt::format("eval_ndcg_at_{}", k)), ndcg / count, 1e-6)
          << model << " at " << k;
    }
  }
}

// With all weights at zero, all items tie: the smaller id is first, whoever ranks.
TEST_F(RecommenderTest, TiesRankAlikeInEvaluationPredictionAndRequests) {
  make_sessions(100);
  ASSERT_EQ(run("train" + kTiny +
                "--max_steps 1 --learning_rate 0 --model.initializer_range 0 "
                "--embedding_initializer_range 0 --exclude_seen false "
                "--top_ks 1,5,20 --output_dir out"),
            0)
      << output_;
  ASSERT_EQ(run("eval out"), 0) << output_;
  const auto evaluated = json("out/eval_results.json");
  const auto sessions =
      data::testing::read_int_lists(folder_ / "syn/valid.parquet", "item_id-list");
  for (const int64_t k : {1, 5, 20}) {
    const auto found =
        std::ranges::count_if(sessions, [&](const auto& ids) { return ids.back() <= k; });
    EXPECT_NEAR(evaluated.at(fmt::format("eval_recall_at_{}", k)),
                static_cast<double>(found) / static_cast<double>(sessions.size()), 1e-6)
        << k;
  }
  ASSERT_EQ(run("predict out --top_k 5 --output told.jsonl"), 0) << output_;
  std::map<int64_t, std::vector<std::string>> told;
  std::ifstream file(folder_ / "told.jsonl");
  for (std::string line; std::getline(file, line);) {
    const auto entry = parse_json(line, "told.jsonl");
    told[entry["row"]].push_back(entry["item_id"]);
  }
  std::vector<std::string> first;
  for (int64_t id = 1; id <= 5; ++id) first.push_back(raw(id));
  for (const auto& [row, items] : told) EXPECT_EQ(items, first) << row;
  for (const auto& answer : Recommender(folder_ / "out").recommend(requests(5))) {
    std::vector<std::string> items;
    for (const auto& item : answer.items) items.push_back(item.item_id);
    EXPECT_EQ(items, first);
  }
}

TEST_F(RecommenderTest, HstuIsAskedWithTimes) {
  constexpr int64_t kItems = 20;
  std::string events = "user_id,item_id,timestamp\n";
  for (int user = 0; user < 60; ++user) {
    int item = static_cast<int>(mix64(static_cast<uint64_t>(user)) % kItems), time = 1700000000;
    for (int i = 0; i < 7; ++i) {
      events += fmt::format("u{},i{},{}\n", user, item, time);
      item = (item * 7 + 3) % static_cast<int>(kItems);
      time += item % 2 == 0 ? 60 : 86400;
    }
  }
  write_file(folder_ / "events.csv", events);
  ASSERT_EQ(run("data sessions events.csv --output syn --keep-time"), 0) << output_;
  train("--model.body hstu --top_ks 1,3,8");
  ASSERT_EQ(run("eval out --eval_time target"), 0) << output_;
  expect("at the target's time");
  ASSERT_EQ(run("eval out"), 0) << output_;
  expect("at the last event's time");
  const auto evaluated = json("out/eval_results.json");
  auto asked = requests(kItems);
  const auto times = data::testing::read_int_lists(folder_ / "syn/valid.parquet", "time-list");
  std::vector<std::string> targets;
  for (size_t row = 0; row < asked.size(); ++row) {
    targets.push_back(asked[row].items.back());
    asked[row].items.pop_back();
    asked[row].times = {times[row].begin(), times[row].end() - 1};
    asked[row].time = times[row].back();
  }
  const Recommender recommender(folder_ / "out");
  const auto answers = recommender.recommend(asked);
  for (const size_t k : {1, 3, 8}) {
    double hits = 0;
    for (size_t row = 0; row < answers.size(); ++row) {
      const auto& items = answers[row].items;
      const auto found = std::ranges::find(items, targets[row], &tasks::RecommendedItem::item_id);
      hits += static_cast<size_t>(found - items.begin()) < k;
    }
    EXPECT_NEAR(evaluated.at(fmt::format("eval_recall_at_{}", k)),
                hits / static_cast<double>(answers.size()), 1e-6);
  }
  ASSERT_EQ(run("predict out --top_k 2 --rows 3"), 0) << output_;
  auto wrong = asked.front();
  wrong.times.pop_back();
  EXPECT_THROW(recommender.recommend(wrong), UsageError);
  const auto error_of = [&](auto spoil) {
    auto request = asked.front();
    spoil(request);
    try {
      recommender.recommend(request);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error_of([](auto& request) { request.times.back() *= 1000; }),
              testing::HasSubstr("it may be in a smaller unit; expected seconds since 1970"));
  EXPECT_THAT(error_of([](auto& request) { request.time = 1'700'000'000'000; }),
              testing::HasSubstr("in \"time\": it may be in a smaller unit"));
  EXPECT_THAT(error_of([](auto& request) { std::ranges::reverse(request.times); }),
              testing::HasSubstr("expected times that do not go back"));
  EXPECT_THAT(error_of([](auto& request) { request.time = request.times.back() - 1; }),
              testing::HasSubstr("a request has \"time\" "));
  const Json written{
      {"items", asked[0].items}, {"times", asked[0].times}, {"time", *asked[0].time}};
  EXPECT_EQ(recommender.recommend(RecommendationRequest::from_json(written)).items.size(), 10);

  train("--overwrite_output_dir --model.body sasrec");
  EXPECT_THROW(Recommender(folder_ / "out").recommend(asked.front()), UsageError);
  ASSERT_EQ(run("data sessions events.csv --output syn"), 0) << output_;
  EXPECT_EQ(run("train" + kTiny + "--model.body hstu --output_dir other"), 2);
  expect("try convoy data sessions --keep-time");
}

}  // namespace
}  // namespace convoy
