#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

namespace convoy {
namespace {

/// Losses that weight each target by a column of its event.
class EventWeights : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::string events = "user_id,item_id,timestamp,stars,kind,twos\n";
    for (int user = 0; user < 80; ++user) {
      for (int i = 0; i < 5 + user % 7; ++i) {
        const int item = (user * 3 + i * i) % 40;
        const bool buys = (user + i) % 4 == 0;
        events +=
            fmt::format("u{},i{},{},{},{},2\n", user, item, i, buys ? 5 : 1, buys ? "buy" : "view");
      }
    }
    write_file(folder_ / "events.csv", events);
    ASSERT_EQ(run("data sessions events.csv --output syn --max-length 8 "
                  "--features stars,kind,twos"),
              0)
        << output_;
  }

  int train(const std::string& more) {
    return run(
        "train --data.path syn --data.features item_id-list --d_model 8 --n_layer 1 --n_head 2 "
        "--max_steps 6 --threads 1 --learning_rate 1e-2 --logging_steps 1 --save_strategy no "
        "--overwrite_output_dir " +
        more);
  }
  static constexpr const char* kAlone = "--per_device_train_batch_size 16 ";
};

TEST_F(EventWeights, AreThoseOfOneDeviceInEveryLayout) {
  const std::string sampled = "--sampled_softmax true --max_n_samples 20 ";
  for (const auto& [loss, layouts] : std::map<std::string, std::vector<std::string>>{
           {"",
            {"8 --nproc 2", "4 --gradient_accumulation_steps 2 --nproc 2 --zero 3",
             "8 --pipeline_parallel_size 2 --gradient_accumulation_steps 2"}},
           {sampled, {"8 --nproc 2 --row_tables true"}}}) {
    const auto weighted = loss + "--event_weights stars --per_device_train_batch_size ";
    ASSERT_EQ(train(weighted + "16 --output_dir one"), 0) << output_;
    for (const auto& layout : layouts) {
      ASSERT_EQ(train(weighted + layout + " --output_dir other"), 0) << layout << output_;
      expect_near(losses("one"), losses("other"));
    }
    ASSERT_EQ(train(kAlone + loss + "--output_dir alike"), 0) << output_;
    EXPECT_FALSE(model_of("one") == model_of("alike"));
  }
}

TEST_F(EventWeights, MapValuesOfACategoryToNumbers) {
  ASSERT_EQ(train(std::string(kAlone) + "--event_weights stars --output_dir numbers"), 0)
      << output_;
  expect("targets count in the loss as stars-list says");
  ASSERT_EQ(train(std::string(kAlone) + "--event_weights kind:buy=5 --output_dir values"), 0)
      << output_;
  EXPECT_TRUE(model_of("numbers") == model_of("values"));
  ASSERT_EQ(train(std::string(kAlone) + "--event_weights kind:view=0,buy=1 --output_dir buys"), 0)
      << output_;
  expect("have 0 and are no targets");
  EXPECT_FALSE(model_of("buys") == model_of("values"));
  // A mean knows no common factor.
  ASSERT_EQ(train(std::string(kAlone) + "--event_weights twos --output_dir twos"), 0) << output_;
  ASSERT_EQ(train(std::string(kAlone) + "--output_dir alike"), 0) << output_;
  expect_near(losses("alike"), losses("twos"));
  // Evaluations know no weights, and the column may be a feature as well.
  ASSERT_EQ(run("eval buys"), 0) << output_;
  ASSERT_EQ(run("train --data.path syn" + kTiny +
                "--max_steps 2 --event_weights kind:buy=5 --output_dir both"),
            0)
      << output_;
  ASSERT_EQ(run("eval both"), 0) << output_;
  EXPECT_TRUE(json("both/config.json").at("features").size() > 2);
}

TEST_F(EventWeights, RefuseColumnsThatHoldNoWeights) {
  const auto refused = [&](const std::string& option, const std::string& part, int code = 2) {
    EXPECT_EQ(train("--output_dir x --event_weights " + option), code) << option << output_;
    expect(part);
  };
  refused("star", "train.event_weights has 'star', which");
  refused("kind", "kind-list has categories; expected COLUMN:VALUE=WEIGHT,...");
  refused("stars:5=1", "stars-list has numbers; expected the name of the column alone");
  refused("kind:bye=5", "names 'bye', which is no value of kind-list; got buy, view");
  refused("kind:buy=-1", "has 'buy=-1'; expected VALUE=WEIGHT");
  refused("item_id-list", "which is no list of numbers or categories of the events");
  refused("kind:buy=0,view=0", "of kind-list in syn/train.parquet are 0, so no target counts", 1);
}

TEST_F(EventWeights, NegativeOnesAreRefusedByRow) {
  using namespace data::testing;
  write_parquet(folder_ / "syn/train.parquet", {{"item_id-list", int_lists({{1, 2, 3}, {2, 1}})},
                                                {"stars-list", float_lists({{1, 2, 3}, {2, -1}})}});
  EXPECT_EQ(train("--output_dir x --event_weights stars"), 1) << output_;
  expect("row 1 of syn/train.parquet has stars-list = -1; expected a weight of at least 0");
}

TEST_F(EventWeights, AreDrawnInAnEstimateWithoutData) {
  fs::remove(folder_ / "syn/train.parquet");
  fs::remove(folder_ / "syn/valid.parquet");
  for (const std::string option : {"stars", "kind:buy=5"}) {
    EXPECT_EQ(run("estimate --data.path syn --d_model 8 --n_head 2 --event_weights " + option), 0)
        << output_;
  }
}

}  // namespace
}  // namespace convoy
