#include <fmt/format.h>

#include "tests/data/parquet_testing.h"
#include "tests/tasks/recommender_testing.h"

namespace convoy {
namespace {

using namespace data::testing;

class RowOwners : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::string events = "user_id,item_id,timestamp\n";
    for (int user = 0; user < 10; ++user) {
      for (int i = 0; i < 6; ++i) events += fmt::format("N{}X,i{},{}\n", user, (user + i) % 9, i);
    }
    write_file(folder_ / "events.csv", events);
    ASSERT_EQ(run("data sessions events.csv --output d"), 0) << output_;
    ASSERT_EQ(run("train --d_model 8 --n_layer 1 --n_head 2 --max_steps 2 --threads 1 "
                  "--data.path d --output_dir out"),
              0)
        << output_;
  }

  std::string predict(const std::string& data) {
    EXPECT_EQ(run("predict out --top-k 1 --output - --data " + data), 0) << output_;
    return output_;
  }
};

TEST_F(RowOwners, AreTheUsersOfTheEventsBesideTheirTable) {
  predict("d/valid.parquet");
  expect("\n0,N0X,1,i");
  EXPECT_FALSE(says("is the column")) << output_;
}

TEST_F(RowOwners, NumbersAreToldWhereNoTableNamesThem) {
  fs::copy(folder_ / "d/valid.parquet", folder_ / "alone.parquet");
  predict("alone.parquet");
  expect(
      "user_id of the predictions is the column 'user_id' of alone.parquet: there is no "
      "users.parquet beside it");
  expect("\n0,1,1,i");
}

TEST_F(RowOwners, AreTheDataOwnColumnWhateverItsType) {
  const std::vector<std::vector<int64_t>> rows{{1, 2, 3}, {4, 5}};
  write_parquet(folder_ / "texts.parquet",
                {{"user_id", words({"anna", "bert"})}, {"item_id-list", int_lists(rows)}});
  predict("texts.parquet");
  expect("user_id of the predictions is the column 'user_id' of texts.parquet");
  expect("\n0,anna,1,i");
  expect("\n1,bert,1,i");
  write_parquet(folder_ / "visits.parquet",
                {{"session_id", ints({77, 78})}, {"item_id-list", int_lists(rows)}});
  predict("visits.parquet");
  expect("user_id of the predictions is the column 'session_id' of visits.parquet");
  expect("\n0,77,1,i");
  write_parquet(folder_ / "none.parquet", {{"item_id-list", int_lists(rows)}});
  predict("none.parquet");
  expect("none.parquet has no column of users or sessions: predictions name its rows alone");
  expect("\n0,,1,i");
}

TEST_F(RowOwners, AskForThemselves) {
  const std::string line = "{\"user\": \"N3X\", \"top_k\": 9}\n";
  write_file(folder_ / "requests", line +
                                       "{\"user\": \"N3X\", \"items\": [\"i1\"], \"top_k\": 9, "
                                       "\"exclude_seen\": false}\n{\"top_k\": 3}\n");
  ASSERT_EQ(shell("$convoy predict out --requests < requests"), 0) << output_;
  const auto answers = split(output_, '\n');
  EXPECT_EQ(parse_json(answers.at(0), "answer").at("items").size(), 3U) << output_;
  EXPECT_EQ(parse_json(answers.at(1), "answer").at("items").size(), 9U) << output_;
  expect("expected an object such as");

  // The data went elsewhere.
  fs::rename(folder_ / "d", folder_ / "moved");
  ASSERT_EQ(shell("$convoy predict out --requests < requests"), 0) << output_;
  expect("there is no seen.parquet beside");
  expect("try --data FOLDER");
  ASSERT_EQ(shell("$convoy predict out --requests --data moved < requests"), 0) << output_;
  EXPECT_EQ(split(output_, '\n').at(0), answers.at(0));
  EXPECT_EQ(run("predict out --requests --rows 3"), 2);
  expect("--rows has no effect");

  const tasks::Recommender recommender(folder_ / "out", at::kCPU, folder_ / "moved");
  EXPECT_EQ(recommender.recommend({.user = "N3X", .top_k = 9}).items.size(), 3U);
  EXPECT_EQ(recommender.recommend({.items = {"i1"}, .top_k = 9}).items.size(), 8U)
      << "exclude_seen is as the run was evaluated";
  // Another folder's ids are refused.
  write_file(folder_ / "other.csv", "user_id,item_id,timestamp\na,x,1\na,y,2\na,z,3\n");
  ASSERT_EQ(run("data sessions other.csv --output other"), 0) << output_;
  ASSERT_EQ(shell("$convoy predict out --requests --data other < requests"), 0) << output_;
  expect("expected ids that keep their numbers");
}

TEST_F(RowOwners, HistoriesHoldNoFeatures) {
  ASSERT_EQ(run("data sessions events.csv --output f --features time_delta"), 0) << output_;
  ASSERT_EQ(run("train --d_model 8 --n_layer 1 --n_head 2 --max_steps 2 --threads 1 "
                "--data.path f --output_dir rf"),
            0)
      << output_;
  write_file(folder_ / "requests",
             "{\"user\": \"N3X\"}\n{\"user\": \"N3X\", \"items\": [\"i1\"], \"top_k\": 9, "
             "\"features\": {\"time_delta-list\": [5]}}\n");
  ASSERT_EQ(shell("$convoy predict rf --requests < requests"), 0) << output_;
  expect("the model reads the feature 'time_delta-list' of each, which histories do not hold");
  EXPECT_EQ(parse_json(split(output_, '\n').at(1), "answer").at("items").size(), 2U)
      << "of nine items six are in the history, and one is in the request\n"
      << output_;
}

TEST_F(RowOwners, HelpShowsOwnOptionsAndARequestFirst) {
  for (const std::string command : {"predict", "eval"}) {
    ASSERT_EQ(run(command + " --help"), 0);
    const auto own = output_.find(command == "predict" ? "--top_k" : "--top_ks");
    const auto examples = output_.find("Examples:"), others = output_.find("[parallel]");
    EXPECT_LT(own, examples) << output_;
    EXPECT_LT(examples, others) << output_;
    EXPECT_NE(others, std::string::npos);
  }
  ASSERT_EQ(run("predict --help"), 0);
  expect("{\"items\": [\"item-3\", \"new\"], \"top_k\": 1}");
  expect("\"unknown\":[\"new\"]");
}

TEST_F(RowOwners, EventsInPlaceOfSessionsAreToldHow) {
  for (const std::string words :
       {"train --data.path events.csv", "train --data.train events.csv", "train events.csv",
        "predict out --data events.csv", "eval out --data events.csv", "data inspect events.csv"}) {
    EXPECT_NE(run(words), 0) << words;
    EXPECT_TRUE(says("convoy data sessions events.csv")) << words << "\n" << output_;
  }
}

}  // namespace
}  // namespace convoy
