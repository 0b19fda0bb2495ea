#include "convoy/tasks/classification/texts.h"

#include <ATen/ATen.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "tests/train/testing.h"

namespace convoy::tasks {
namespace {

using ClassificationTexts = train::InFolder;

/// Lengths of the batches of two texts of 3, 4, .. words and two more ids.
std::vector<int64_t> lengths(const text::Tokenizer& tokenizer, const Padding& padding) {
  data::LabelledTexts texts;
  for (int words = 3; words < 23; ++words) {
    std::string text;
    for (int i = 0; i < words; ++i) text += "word ";
    texts.texts.push_back(text);
    texts.labels.push_back(words % 2 == 0 ? "even" : "odd");
  }
  const auto data =
      make_text_dataset(texts, Labels(texts.labels), tokenizer, padding, "these texts");
  train::StreamOptions options;
  options.shuffle = false;
  options.layout.per_device_batch = 2;
  const auto stream = data->open(options);
  stream->start(0, 0);
  std::vector<int64_t> out;
  while (const auto step = stream->next()) {
    const auto& inputs = step->cells.at(0).inputs;
    const auto& ids = inputs.at("input_ids");
    out.push_back(ids.size(1));
    const auto mask = inputs.find("key_mask");
    EXPECT_TRUE(mask == inputs.end() ? ids.all().item<bool>() : at::equal(ids != 0, mask->second));
  }
  return out;
}

TEST_F(ClassificationTexts, ArePaddedToTheLongestOrAMultipleOfIt) {
  write_file(folder_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n");
  const auto tokenizer = text::Tokenizer::load(folder_);
  EXPECT_EQ(lengths(tokenizer, {.most = 30}),
            (std::vector<int64_t>{6, 8, 10, 12, 14, 16, 18, 20, 22, 24}));
  EXPECT_EQ(lengths(tokenizer, {.most = 30, .multiple = 8}),
            (std::vector<int64_t>{8, 8, 16, 16, 16, 16, 24, 24, 24, 24}));
  EXPECT_EQ(lengths(tokenizer, {.most = 21, .multiple = 8}).back(), 21)
      << "no more than a text may have";
}

TEST(ClassificationLabels, OfAnotherKindOfProblemAreRefused) {
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
