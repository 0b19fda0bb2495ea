#include <fmt/format.h>

#include "convoy/base/options.h"
#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

const std::string kSmall =
    "train --d_model 8 --n_layer 1 --n_head 2 --per_device_train_batch_size 8 --max_steps 2 "
    "--threads 1 ";

class MaxLength : public CommandTest {
 protected:
  /// Rows of up to `most` items, of users with 60 events each.
  void make(int most, const std::string& folder) {
    std::string events = "user_id,item_id,timestamp\n";
    for (int user = 0; user < 10; ++user) {
      for (int i = 0; i < 60; ++i) events += fmt::format("u{},i{},{}\n", user, (user + i) % 7, i);
    }
    write_file(folder_ / "events.csv", events);
    ASSERT_EQ(
        run(fmt::format("data sessions events.csv --output {} --max-length {}", folder, most)), 0)
        << output_;
  }

  void expect_length(const std::string& folder, const std::string& length) {
    EXPECT_EQ(toml_values(folder_ / folder / "run.toml").at("data.max_length"), length);
    EXPECT_EQ(json(folder + "/config.json").at("max_length"), std::stoi(length));
  }
};

TEST_F(MaxLength, FollowsTheDataAndWhatIsCutIsTold) {
  make(50, "d");
  ASSERT_EQ(run(kSmall + "--data.path d --output_dir all"), 0) << output_;
  expect_length("all", "50");
  EXPECT_FALSE(says("are cut")) << output_;
  // Each user's 59 events of training make rows of 50 and 9.
  ASSERT_EQ(run(kSmall + "--data.path d --max_length 20 --output_dir cut"), 0) << output_;
  expect(
      "10 of 20 rows are longer than max_length = 20 and are cut to that: 300 of 590 items "
      "(50.8 %) are not read");
  expect_length("cut", "20");
  ASSERT_EQ(run("eval cut"), 0) << output_;
  expect(
      "10 of 10 rows are longer than max_length = 20: their last 20 are read, 300 of 500 items "
      "(60.0 %) are not");
  ASSERT_EQ(run(kSmall + "--data.path d --parity transformers4rec --output_dir other"), 0)
      << output_;
  expect_length("other", "20");
  expect("300 of 590 items");
}

TEST_F(MaxLength, IsAtMost512FromASchemaAlone) {
  make(600, "d");
  auto schema = json("d/schema.json");
  ASSERT_EQ(run(kSmall + "--data.path d --output_dir long"), 0) << output_;
  expect_length("long", "512");
  for (auto& feature : schema.at("feature")) feature.erase("valueCount");
  for (auto& feature : schema.at("feature")) feature["isList"] = feature.at("name") != "user_id";
  write_file(folder_ / "d/schema.json", schema.dump());
  ASSERT_EQ(run(kSmall + "--data.path d --output_dir untold"), 0) << output_;
  expect_length("untold", "20");
  expect("are cut to that");
}

TEST_F(MaxLength, IsKeptByAResumeAndByARunThatGoesOnFromAnother) {
  make(50, "d");
  make(30, "short");
  const auto command = kSmall + "--save_steps 1 --output_dir out ";
  ASSERT_EQ(run(command + "--data.path d"), 0) << output_;
  auto schema = read_file(folder_ / "d/schema.json");
  for (size_t at = 0; (at = schema.find("\"50\"", at)) != std::string::npos;) {
    schema.replace(at, 4, "\"40\"");
  }
  write_file(folder_ / "d/schema.json", schema);
  ASSERT_EQ(run(command + "--data.path d --max_steps 4 --resume_from_checkpoint latest"), 0)
      << output_;
  expect_length("out", "50");
  ASSERT_EQ(run(kSmall + "--data.path short --model_name_or_path out --output_dir next"), 0)
      << output_;
  expect_length("next", "50");
  ASSERT_EQ(run(kSmall + "--data.path short --output_dir fresh"), 0) << output_;
  expect_length("fresh", "30");
}

}  // namespace
}  // namespace convoy
