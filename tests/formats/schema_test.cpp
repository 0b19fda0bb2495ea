#include "convoy/formats/schema.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::formats {
namespace {

constexpr const char* kExample = R"({
  "feature": [
    {"name": "sess_pid_seq", "type": "INT", "valueCount": {"min": "2", "max": "185"},
     "intDomain": {"name": "sess_pid_seq", "min": "1", "max": "390000", "isCategorical": true},
     "annotation": {"tag": ["item_id", "list", "categorical", "item"]}},
    {"name": "price", "type": "FLOAT", "valueCount": {"min": 2, "max": 20},
     "floatDomain": {"min": -2.5, "max": 5}, "annotation": {"tag": ["continuous", "list"]}},
    {"name": "user", "type": "BYTES"}
  ]
})";

// The same as protobuf text, in more than one of its spellings.
constexpr const char* kExampleText = R"(# what TensorFlow Metadata writes
feature {
  name: "sess_pid_seq"
  type: INT
  value_count {
    min: 2
    max: 185
  }
  int_domain { name: 'sess_' "pid_seq" min: 1, max: 390000; is_categorical: true }
  annotation {
    tag: "item_id"
    tag: ["list", "categorical", "item"]
    extra_metadata { [type.googleapis.com/google.protobuf.Struct] { fields { key: "x" } } }
  }
}
feature: < name: "price" type: FLOAT value_count { min: 2 max: 20 }
  float_domain { min: -2.5f max: 5 } annotation { tag: "continuous" tag: "list" } >
feature { name: "us\145\x72" type: BYTES }
)";

template <class Work>
std::string message_of(Work&& work) {
  try {
    work();
  } catch (const FileError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// What reading one feature with this JSON says.
std::string message_of_feature(const std::string& feature) {
  return message_of([&] { Schema::from_json("{\"feature\": [" + feature + "]}", "s.json"); });
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

void expect_example(const Schema& schema) {
  ASSERT_EQ(schema.features.size(), 3u);
  const Feature& item = schema.item_id();
  EXPECT_EQ(item.name, "sess_pid_seq");
  EXPECT_EQ(item.type, Feature::Int);
  EXPECT_TRUE(item.is_list);
  EXPECT_EQ(item.min_length, 2);
  EXPECT_EQ(item.max_length, 185);
  ASSERT_TRUE(item.int_domain);
  EXPECT_EQ(item.int_domain->min, 1);
  EXPECT_EQ(item.int_domain->max, 390000);
  EXPECT_TRUE(item.int_domain->is_categorical);
  EXPECT_TRUE(item.has_tag("categorical"));
  EXPECT_FALSE(item.has_tag("continuous"));
  const Feature* price = schema.find("price");
  ASSERT_TRUE(price && price->float_domain);
  EXPECT_EQ(price->max_length, 20);
  EXPECT_EQ(price->float_domain->min, -2.5);
  EXPECT_EQ(schema.features[2].type, Feature::Bytes);
  EXPECT_FALSE(schema.features[2].is_list);
  EXPECT_EQ(schema.find("nothing"), nullptr);
}

TEST(Schema, ReadsPlainAndQuotedNumbers) {
  expect_example(Schema::from_json(kExample, "test"));
}

TEST(Schema, ReadsBackWhatItWrites) {
  const std::string text = Schema::from_json(kExample, "test").to_json();
  EXPECT_HAS(text, "\"max\": \"390000\"");
  expect_example(Schema::from_json(text, "written"));
}

TEST(Schema, LoadsAFile) {
  const auto folder = unique_folder("convoy-schema-test");
  write_file(folder / "schema.json", kExample);
  expect_example(Schema::load(folder / "schema.json"));
  EXPECT_HAS(message_of([&] { Schema::load(folder / "other.json"); }), "other.json");
  write_file(folder / "schema.pbtxt", kExampleText);
  expect_example(Schema::load(folder / "schema.pbtxt"));
  std::filesystem::remove_all(folder);
}

TEST(Schema, SaysWhereProtobufTextIsWrong) {
  auto message = [](const std::string& text) {
    return message_of([&] { Schema::from_pbtxt(text, "s.pbtxt"); });
  };
  EXPECT_HAS(message("feature {\n  name: \"a\n}"), "s.pbtxt:2:11: a string runs over the end");
  EXPECT_HAS(message("feature {\n  name \"a\" }"), "s.pbtxt:2:8: expected : or {");
  EXPECT_HAS(message("feature { name: \"a\""), "the text ends before a '}'");
  EXPECT_HAS(message("feature { name: \"a\\377\" }"), "a string is not UTF-8");
  EXPECT_HAS(message("feature { } }"), "s.pbtxt:1:13: '}'");
  EXPECT_HAS(message("feature { name: \"a\" name: \"b\" }"), "has 'name' 2 times");
  EXPECT_HAS(message("feature { name: \"a\" type: 7 }"), "type 7 is not known");
  EXPECT_HAS(message(""), "names no feature");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "a{";
  EXPECT_HAS(message(deep), "lie in each other");
}

TEST(Schema, PassesOverFieldsThatSayNothingHere) {
  const auto schema = Schema::from_pbtxt(
      "feature { name: 'a' type: INT in_environment: 'x' in_environment: 'y' presence { "
      "min_fraction: 1 } } string_domain { value: 'p' value: 'q' } default_environment: 'x'",
      "s.pbtxt");
  EXPECT_EQ(schema.features.size(), 1u);
  EXPECT_TRUE(schema.warnings.empty()) << schema.warnings.front();
}

TEST(Schema, WarnsOfFieldsThatNobodyKnows) {
  auto schema = Schema::from_pbtxt(
      "feature { name: 'a' type: INT int_domian { max: 3 } }\n"
      "feature { name: 'b' type: INT int_domian { max: 3 } }",
      "s.pbtxt");
  ASSERT_EQ(schema.warnings.size(), 1u);
  EXPECT_EQ(schema.warnings[0],
            "feature 'a' of s.pbtxt has the unknown field 'intDomian', which is ignored, did you "
            "mean 'intDomain'?");
  schema = Schema::from_json(
      R"({"feature": [{"name": "a", "type": "INT", "int_domain": {"max": 3}}], "version": 2})",
      "s.json");
  ASSERT_EQ(schema.warnings.size(), 2u);
  EXPECT_HAS(schema.warnings[0], "the schema of s.json has the unknown field 'version'");
  EXPECT_HAS(schema.warnings[1], "'int_domain', which is ignored, did you mean 'intDomain'?");
}

TEST(Schema, SaysWhatIsWrong) {
  EXPECT_HAS(message_of([] { Schema::from_json("{\"feature\": [}", "s.json"); }), "s.json");
  EXPECT_HAS(message_of([] { Schema::from_json("{\"feature\": [}", "s.json"); }), "byte 14");
  EXPECT_HAS(message_of([] { Schema::from_json("[]", "s.json"); }), "is not a schema");
  EXPECT_HAS(message_of([] { Schema::from_json("{\"feature\": 1}", "s.json"); }),
             "is not a schema");
  EXPECT_HAS(message_of_feature("3"), "feature 0 of s.json: it is number");
  EXPECT_HAS(message_of_feature(R"({"type": "INT"})"), "has no name");
  EXPECT_HAS(message_of_feature(R"({"name": "a", "isList": 3})"), "'isList' is 3; expected true");
  EXPECT_HAS(message_of_feature(R"({"name": "a", "type": "TEXT"})"),
             "feature 'a' of s.json: type \"TEXT\" is not known");
  EXPECT_HAS(
      message_of_feature(R"({"name": "a", "type": "INT", "intDomain": {"min": 5, "max": "4"}})"),
      "max 4 is below min 5");
  EXPECT_HAS(message_of_feature(R"({"name": "a", "type": "INT", "intDomain": {"max": "many"}})"),
             "expected a whole number");
  EXPECT_HAS(message_of_feature(
                 R"({"name": "a", "type": "INT", "intDomain": {"max": 99999999999999999999}})"),
             "expected a whole number");
  EXPECT_HAS(message_of_feature(R"({"name": "a", "type": "INT", "intDomain": 4})"),
             "expected an object");
  EXPECT_HAS(
      message_of_feature(R"({"name": "a", "type": "INT", "intDomain": {"isCategorical": "yes"}})"),
      "expected true or false");
  EXPECT_HAS(message_of_feature(R"({"name": "a", "type": "INT", "valueCount": {"min": -1}})"),
             "makes no sense");
  EXPECT_HAS(message_of_feature(R"({"name": "a", "type": "INT", "annotation": {"tag": [1]}})"),
             "not a list of strings");
  EXPECT_HAS(message_of_feature(R"({"name": "a", "type": "INT"}, {"name": "a", "type": "INT"})"),
             "feature 'a' is twice");
}

TEST(Schema, WantsExactlyOneItemId) {
  Schema schema = Schema::from_json(kExample, "test");
  schema.features[1].tags.push_back("item_id");
  EXPECT_HAS(message_of([&] { schema.item_id(); }), "sess_pid_seq, price of test all have the tag");
  schema.features.erase(schema.features.begin(), schema.features.begin() + 2);
  EXPECT_HAS(message_of([&] { schema.item_id(); }), "no feature of test has the tag");
}

TEST(Schema, AFeatureThatNobodyReadsMayLackItsType) {
  const auto schema = Schema::from_json(
      R"({"feature": [{"name": "click", "annotation": {"tag": ["target"]}},
                      {"name": "genres", "type": "INT", "is_list": true}]})",
      "schema.json");
  EXPECT_EQ(schema.features[0].type, Feature::Unknown);
  EXPECT_TRUE(schema.features[1].is_list);
  EXPECT_TRUE(schema.warnings.empty()) << schema.warnings[0];
  const auto again = Schema::from_json(schema.to_json(), "again");
  EXPECT_EQ(again.features[0].type, Feature::Unknown);
  EXPECT_EQ(Schema::from_pbtxt("feature { name: \"day\" annotation { } }", "schema.pbtxt")
                .features[0]
                .type,
            Feature::Unknown);
}

}  // namespace
}  // namespace convoy::formats
