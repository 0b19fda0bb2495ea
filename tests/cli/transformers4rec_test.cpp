#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

// Folders in the shapes of Transformers4Rec's own samples.
namespace convoy {
namespace {

using namespace data::testing;

const std::string kSmall =
    " --d_model 8 --n_layer 1 --n_head 2 --threads 1 --max_steps 2 --logging_steps 1 "
    "--output_dir out --overwrite_output_dir ";

class Transformers4Rec : public CommandTest {};

TEST_F(Transformers4Rec, MusicSampleTrainsFromItsFolder) {
  write_file(folder_ / "music/schema.json", R"({"feature": [
    {"name": "session_id", "type": "INT", "intDomain": {"max": "10000", "isCategorical": true},
     "annotation": {"tag": ["categorical", "session_id"]}},
    {"name": "item_id", "type": "INT", "valueCount": {"min": "1", "max": "20"},
     "intDomain": {"name": "item_id", "max": "20", "isCategorical": true, "is_list": true},
     "annotation": {"tag": ["categorical", "item_id", "item", "list"]}},
    {"name": "item_category", "type": "INT", "is_list": true,
     "valueCount": {"min": "1", "max": "20"},
     "intDomain": {"name": "item_category", "max": "9", "isCategorical": true},
     "annotation": {"tag": ["categorical", "item", "list"]}},
    {"name": "item_recency", "type": "FLOAT", "valueCount": {"min": "1", "max": "20"},
     "floatDomain": {"name": "item_recency", "max": 1.0, "is_list": true},
     "annotation": {"tag": ["continuous", "item", "list"]}},
    {"name": "user_id", "type": "INT", "intDomain": {"max": "10000", "isCategorical": true},
     "annotation": {"tag": ["categorical", "user_id"]}},
    {"name": "click", "annotation": {"tag": ["binary_classification", "target"]}},
    {"name": "play_percentage", "annotation": {"tag": ["regression", "target"]}}]})");
  write_parquet(
      folder_ / "music/data.parquet",
      {{"session_id", ints({4, 5, 6})},
       {"user_id", ints({17, 3, 17})},
       {"item_id", int_lists({{14, 16, 2}, {4, 9}, {1, 2, 3, 4}})},
       {"item_category", int_lists({{1, 2, 3}, {4, 9}, {1, 2, 3, 4}})},
       {"item_recency", lists<arrow::DoubleBuilder>({{.1, .2, .3}, {.4, .5}, {0, 0, 0, 0}})},
       {"click", numbers<arrow::DoubleBuilder>({1, 0, 1})},
       {"play_percentage", numbers<arrow::DoubleBuilder>({.7, 0, 1})}});
  ASSERT_EQ(run("train --data.path music" + kSmall), 0) << output_;
  EXPECT_EQ(output_.find("warning"), std::string::npos) << output_;
  expect("examples       3");
  EXPECT_EQ(json("out/config.json")["features"].size(), 3);

  ASSERT_EQ(run("predict out --data music --top-k 1 --output -"), 0) << output_;
  expect("row,user_id,rank,item_id,score\n0,17,1,");
  expect("\n1,3,1,");
  ASSERT_EQ(run("data inspect music"), 0) << output_;
  expect("ids          1 to 16; the schema allows up to 20");

  EXPECT_EQ(run("train --data.path music --features item_id,click" + kSmall), 1);
  expect("feature 'click' in music/schema.json has no type");
  auto schema = json("music/schema.json");
  schema["feature"][2].erase("type");
  write_file(folder_ / "music/schema.json", schema.dump());
  EXPECT_EQ(run("train --data.path music" + kSmall), 1);
  expect("feature 'item_category' in music/schema.json has no type; expected INT");
}

TEST_F(Transformers4Rec, SequencesOfItsUnitTestsTrain) {
  std::string text;
  auto add = [&](const std::string& name, const std::string& more) {
    text += "feature {\n  name: \"" + name + "\"\n" + more + "}\n";
  };
  const std::string list = "  value_count {\n    min: 2\n    max: 185\n  }\n";
  add("session_id", "  type: INT\n  annotation {\n    tag: \"groupby_col\"\n  }\n");
  add("session_start", "  annotation {\n    tag: \"first\"\n  }\n");
  add("timestamp/hour/list",
      list +
          "  type: FLOAT\n  float_domain {\n    min: 5.7866055e-06\n    max: "
          "1.6051354\t\n  }\n  annotation {\n    tag: \"continuous\"\n    "
          "tag: \"time\"\n    tag: \"list\"\n  }\n");
  add("item_id/list",
      list +
          "  type: INT\n  int_domain {\n    name: \"item_id/list\"\n    min: 1\n    "
          "max: 30\n    is_categorical: true\n  }\n  annotation {\n    tag: "
          "\"item_id\"\n    tag: \"list\"\n    tag: \"categorical\"\n  }\n");
  add("day_idx", "  annotation {\n  }\n");
  write_file(folder_ / "data_seq_schema.pbtxt", text);
  write_parquet(folder_ / "data_seq.parquet",
                {{"session_id", ints({1, 2})},
                 {"timestamp/hour/list", float_lists({{.7F, .7F, .7F}, {.1F, .2F}})},
                 {"item_id/list", int_lists({{20, 21, 30}, {4, 9}})}});
  ASSERT_EQ(run("train --data.train data_seq.parquet --data.schema data_seq_schema.pbtxt" + kSmall),
            0)
      << output_;
  EXPECT_EQ(json("out/config.json")["features"].size(), 2);
  ASSERT_EQ(run("predict out --data data_seq.parquet --top-k 1"), 0) << output_;
}

TEST_F(Transformers4Rec, ATableWithOneItemARowIsToldHowToBecomeSessions) {
  write_file(folder_ / "tab/schema.json", R"({"feature": [
    {"name": "user_id", "type": "INT", "intDomain": {"min": "1", "max": "9", "isCategorical": true},
     "annotation": {"tag": ["categorical"]}},
    {"name": "event_timestamp", "type": "INT", "annotation": {}},
    {"name": "item_id", "type": "INT",
     "intDomain": {"min": "1", "max": "99", "isCategorical": true},
     "annotation": {"tag": ["item_id", "categorical", "item"]}},
    {"name": "categories", "type": "INT", "valueCount": {"min": "1", "max": "4"},
     "intDomain": {"min": "1", "max": "331", "isCategorical": true},
     "annotation": {"tag": ["list", "categorical", "item"]}}]})");
  write_parquet(folder_ / "tab/data.parquet", {{"user_id", ints({1, 1, 1, 2})},
                                               {"event_timestamp", ints({5, 6, 7, 5})},
                                               {"item_id", ints({20, 21, 20, 9})},
                                               {"categories", int_lists({{1, 2}, {3}, {4}, {5}})}});
  EXPECT_EQ(run("train --data.path tab" + kSmall), 1);
  expect("column 'item_id' of tab/data.parquet is int64: one item a row");
  expect("try convoy data sessions tab/data.parquet --item item_id --output DIR");
  EXPECT_FALSE(says("Dimension out of range")) << output_;
  ASSERT_EQ(run("data inspect tab"), 0) << output_;
  expect("ids          9 to 21; the schema allows up to 99 (of item_id)");
  // What it says works.
  ASSERT_EQ(run("data sessions tab/data.parquet --item item_id --time event_timestamp --output s"),
            0)
      << output_;
  ASSERT_EQ(run("train --data.path s" + kSmall), 0) << output_;
}

}  // namespace
}  // namespace convoy
