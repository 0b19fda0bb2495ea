#include "convoy/parallel/program/counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace convoy::parallel {
namespace {

using testing::HasSubstr;

const ModelDecl kModel{.params = {}, .blocks = {{"embedding", {}}, {"layer0", {}}, {"head", {}}}};

std::vector<BlockCounts> read_costs(const std::string& text) {
  return counts_from_file(text, "costs.json", kModel);
}

std::string file_refusal(const std::string& text) {
  try {
    read_costs(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

/// A file with the head's numbers as given.
std::string with_head(const std::string& head) {
  const std::string block =
      R"({"forward": 1, "backward": 2, "weight": 0.5, "kept": 100, "put_off": 40, "returned": 10})";
  return R"({"layer0": )" + block + R"(, "embedding": )" + block + R"(, "head": )" + head + "}";
}

TEST(Counts, FileGivesTheCountsOfEachBlock) {
  const auto all = read_costs(
      with_head(R"({"forward": 3, "backward": 4.5, "weight": 0, "kept": 8, "put_off": 0})"));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0], (BlockCounts{1, 2, 0.5, 100, 40, 10}));
  // Nothing is known to be saved where a block does not say what it returns.
  EXPECT_EQ(all[2], (BlockCounts{3, 4.5, 0, 8, 0, 8}));
  const auto costs = costs_of(all);
  EXPECT_EQ(costs.backward, (std::vector<double>{2, 2, 4.5}));
  EXPECT_EQ(costs.weight_half(1), 0.5);
  EXPECT_EQ(costs.put_off, (std::vector<double>{40, 40, 0}));
}

TEST(Counts, FileMayGiveTheTimeOfMessages) {
  const auto all = read_costs(with_head(
      R"({"forward": 3, "backward": 4, "weight": 0, "kept": 8, "put_off": 0, "send": 0.5,
          "send_grad": 0.25})"));
  const auto costs = costs_of(all);
  EXPECT_EQ(costs.send, (std::vector<double>{0, 0, 0.5}));
  EXPECT_EQ(costs.send_grad, (std::vector<double>{0, 0, 0.25}));
  EXPECT_EQ(costs_of(counts_from_json(to_json(all))).send, costs.send);
}

TEST(Counts, RefuseFilesOfAnotherModelOrWithoutNumbers) {
  const std::string good = R"({"forward": 3, "backward": 4, "weight": 1, "kept": 8, "put_off": 2})";
  EXPECT_EQ(file_refusal(with_head(good)), "taken");
  EXPECT_THAT(file_refusal("[]"), HasSubstr("expected numbers by the name of a block"));
  EXPECT_THAT(file_refusal("{"), HasSubstr("costs.json"));
  EXPECT_THAT(file_refusal(R"({"embedding": )" + good + "}"),
              HasSubstr("has nothing of block 'layer0'"));
  EXPECT_THAT(file_refusal(R"({"layers0": )" + good + "}"),
              HasSubstr("no block 'layers0', did you mean 'layer0'?"));
  for (const auto& [head, told] :
       {std::pair{"7", "has no numbers; expected forward, backward, weight, kept, put_off"},
        {R"({"forward": 3})", "block 'head' has no 'backward'"},
        {R"({"forward": -3, "backward": 4, "weight": 1, "kept": 8, "put_off": 2})",
         "has forward = -3; expected a number from 0 on"},
        {R"({"forward": "3", "backward": 4, "weight": 1, "kept": 8, "put_off": 2})",
         "has forward = \"3\""},
        {R"({"forward": 3, "backward": 4, "weight": 5, "kept": 8, "put_off": 2})",
         "has weight = 5, more than backward = 4"},
        {R"({"forward": 3, "backward": 4, "weight": 1, "kept": 8, "put_off": 2, "time": 1})",
         "has 'time'; expected"}}) {
    EXPECT_THAT(file_refusal(with_head(head)), HasSubstr(told));
  }
}

TEST(Counts, SurviveTheirJson) {
  const std::vector<BlockCounts> all{{1, 2, 0.1, 3, 4, 5, 6, 7},
                                     {1e12, 2e12 / 3, 0, 0, 0, 0, 0, 0}};
  EXPECT_EQ(counts_from_json(parse_json(to_json(all).dump(), "told")), all);
  EXPECT_EQ(all[0].times(2), (BlockCounts{2, 4, 0.2, 6, 8, 10, 12, 14}));
}

}  // namespace
}  // namespace convoy::parallel
