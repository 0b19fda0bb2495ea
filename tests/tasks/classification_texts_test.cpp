#include "convoy/tasks/classification/texts.h"

#include <ATen/ATen.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "tests/train/testing.h"

namespace convoy::tasks {
namespace {

using ClassificationTexts = train::InFolder;

/// Lengths of the batches of two texts of 3, 4, .. words and two more ids.
std::vector<int64_t> lengths(const tokenizers::Tokenizer& tokenizer, const Padding& padding) {
  data::LabelledTexts texts;
  for (int words = 3; words < 23; ++words) {
    std::string text;
    for (int i = 0; i < words; ++i) text += "word ";
    texts.texts.push_back(text);
    texts.labels.push_back(words % 2 == 0 ? "even" : "odd");
  }
  const auto data =
      make_text_dataset(texts, Labels(texts.labels), tokenizer, padding, "these texts");
  data::StreamOptions options;
  options.shuffle = false;
  options.layout.per_device_batch = 2;
  const auto stream = data->open(options);
  stream->start(0, 0);
  std::vector<int64_t> out;
  while (const auto step = stream->next()) {
    const auto& inputs = step->micro_batches.at(0).inputs;
    const auto& ids = inputs.at("input_ids");
    out.push_back(ids.size(1));
    const auto mask = inputs.find("key_mask");
    EXPECT_TRUE(mask == inputs.end() ? ids.all().item<bool>() : at::equal(ids != 0, mask->second));
  }
  return out;
}

TEST_F(ClassificationTexts, ArePaddedToTheLongestOrAMultipleOfIt) {
  write_file(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n");
  const auto tokenizer = tokenizers::Tokenizer::load(folder_);
  EXPECT_EQ(lengths(tokenizer, {.most = 30}),
            (std::vector<int64_t>{6, 8, 10, 12, 14, 16, 18, 20, 22, 24}));
  EXPECT_EQ(lengths(tokenizer, {.most = 30, .multiple = 8}),
            (std::vector<int64_t>{8, 8, 16, 16, 16, 16, 24, 24, 24, 24}));
  EXPECT_EQ(lengths(tokenizer, {.most = 21, .multiple = 8}).back(), 21)
      << "no more than a text may have";
}

TEST_F(ClassificationTexts, PairsAreCutAsTokenizersCutThem) {
  write_file(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  const auto tokenizer = tokenizers::Tokenizer::load(folder_);
  // Words of the texts, tokens in all, and how many of each text tokenizers 0.23.3 keeps.
  struct Case {
    int first, second, most, kept_first, kept_second;
  };
  for (const auto& [first, second, most, kept_first, kept_second] : std::vector<Case>{
           {3, 4, 10, 3, 4},     {3, 4, 9, 3, 3},      {4, 3, 9, 3, 3},      {4, 4, 9, 3, 3},
           {2, 9, 9, 2, 4},      {9, 2, 9, 4, 2},      {3, 9, 9, 3, 3},      {9, 3, 9, 3, 3},
           {9, 9, 9, 3, 3},      {9, 9, 10, 3, 4},     {8, 9, 10, 3, 4},     {9, 8, 10, 4, 3},
           {1, 9, 4, 0, 1},      {9, 1, 4, 1, 0},      {9, 9, 4, 0, 1},      {9, 9, 3, 0, 0},
           {0, 9, 9, 0, 6},      {9, 0, 9, 6, 0},      {38, 40, 64, 30, 31}, {40, 38, 64, 31, 30},
           {40, 40, 64, 30, 31}, {40, 40, 63, 30, 30}, {80, 90, 128, 62, 63}}) {
    data::LabelledTexts texts;
    texts.texts.emplace_back();
    texts.seconds.emplace_back();
    for (int i = 0; i < first; ++i) texts.texts[0] += "a ";
    for (int i = 0; i < second; ++i) texts.seconds[0] += "b ";
    const auto data = make_text_dataset(texts, {}, tokenizer, {.most = most}, "these texts");
    const auto stream = data->open({.shuffle = false});
    stream->start(0, 0);
    const auto step = stream->next();
    ASSERT_TRUE(step);
    const auto& inputs = step->micro_batches.at(0).inputs;
    const auto& ids = inputs.at("input_ids");
    const auto name = fmt::format("{} and {} words in {}", first, second, most);
    EXPECT_EQ((ids == 5).sum().item<int64_t>(), kept_first) << name;
    EXPECT_EQ((ids == 6).sum().item<int64_t>(), kept_second) << name;
    EXPECT_EQ(inputs.at("token_type_ids").sum().item<int64_t>(), kept_second + 1) << name;
  }
}

TEST(ClassificationLabels, KeepTheNumbersThatAModelKnows) {
  const auto labels_of = [](const std::vector<std::string>& names) {
    Json config;
    for (size_t i = 0; i < names.size(); ++i) config["id2label"][std::to_string(i)] = names[i];
    return Labels::of_config(config, "config.json");
  };
  using Names = std::vector<std::string>;
  const auto placed = [&](const Names& names, const Names& own) {
    return Labels(names).placed_as(labels_of(own)).names();
  };
  EXPECT_EQ(placed({"Neutral", "neg"}, {"neg", "pos"}), (Names{"neg", "Neutral"}));
  EXPECT_EQ(placed({"a", "b", "c", "d"}, {"d", "x", "b", "y"}), (Names{"d", "a", "b", "c"}));
  EXPECT_EQ(placed({"a", "b"}, {"b", "a"}), (Names{"b", "a"}));
  EXPECT_EQ(placed({"a", "b"}, {"LABEL_0", "LABEL_1"}), (Names{"a", "b"}));
  EXPECT_EQ(placed({"a", "b"}, {"a", "a"}), (Names{"a", "b"})) << "one of them would be lost";
}

TEST(ClassificationLabels, RefuseOtherProblemTypes) {
  Json config{{"id2label", {{"0", "dull"}, {"1", "good"}}}};
  for (const auto& problem : {Json(), Json("single_label_classification")}) {
    config["problem_type"] = problem;
    EXPECT_EQ(Labels::of_config(config, "config.json").size(), 2) << problem;
  }
  for (const char* problem : {"multi_label_classification", "regression"}) {
    config["problem_type"] = problem;
    try {
      Labels::of_config(config, "config.json");
      ADD_FAILURE() << problem;
    } catch (const FileError& error) {
      EXPECT_NE(
          std::string(error.what()).find(fmt::format("problem_type = \"{}\" is not", problem)),
          std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace convoy::tasks
