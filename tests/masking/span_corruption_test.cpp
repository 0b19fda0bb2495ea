#include "convoy/masking/span_corruption.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "convoy/base/error.h"

namespace convoy::masking {
namespace {

constexpr int64_t kFirstSentinel = 1000;

SpanCorruption corruption_of(double density = 0.15, double mean = 3) {
  SpanCorruption out{density, mean, {}, /*end_id=*/1};
  for (int64_t i = 0; i < 100; ++i) out.sentinel_ids.push_back(kFirstSentinel - i);
  return out;
}

nn::Context context_of(int64_t rows) {
  nn::Context context;
  context.seed = 7;
  context.step = 5;
  context.samples = at::arange(rows, at::kLong);
  return context;
}

/// Different tokens from 2 on.
at::Tensor texts_of(int64_t rows, int64_t length) {
  return at::arange(rows * length, at::kLong).remainder(800).add(2).view({rows, length});
}

TEST(SpanCorruption, LengthsAreT5s) {
  const auto usual = corruption_of();
  EXPECT_EQ(usual.text_length(512), 568);
  EXPECT_EQ(usual.input_length(568), 512);
  EXPECT_EQ(usual.target_length(568), 114);
  EXPECT_EQ(usual.text_length(128), 141);
  EXPECT_EQ(usual.target_length(141), 29);
  const auto half = corruption_of(0.5, 3);  // then the targets are to be no longer than the inputs
  EXPECT_EQ(half.text_length(100), 148);
  EXPECT_EQ(half.target_length(148), 100);
  EXPECT_EQ(usual.text_length(3), 2);
  EXPECT_THROW(usual.text_length(2), UsageError);
}

TEST(SpanCorruption, SpansPutBackGiveTheText) {
  for (const int64_t T : {2, 3, 9, 141, 568}) {
    const auto corruption = corruption_of();
    const auto ids = texts_of(16, T);
    const auto made = corrupt_spans(ids, corruption, context_of(16));
    ASSERT_EQ(made.input_ids.size(1), corruption.input_length(T));
    ASSERT_EQ(made.labels.size(1), corruption.target_length(T));
    for (int64_t row = 0; row < 16; ++row) {
      const auto read = [&](const at::Tensor& from) {
        const auto* begin = from.const_data_ptr<int64_t>() + row * from.size(1);
        return std::vector<int64_t>(begin, begin + from.size(1));
      };
      std::map<int64_t, std::vector<int64_t>> spans;
      auto labels = read(made.labels);
      ASSERT_EQ(labels.back(), 1);
      labels.pop_back();
      int64_t last = 0;
      for (const int64_t id : labels) {
        if (id > 801) {
          ASSERT_EQ(id, kFirstSentinel - std::ssize(spans)) << "in order from the first";
          spans[last = id];
        } else {
          spans[last].push_back(id);
        }
      }
      EXPECT_EQ(std::ssize(spans), corruption.num_spans(T));
      std::vector<int64_t> whole;
      auto input = read(made.input_ids);
      ASSERT_EQ(input.back(), 1);
      input.pop_back();
      EXPECT_LT(input.front(), 802) << "a text begins with what is left";
      for (const int64_t id : input) {
        if (id < 802) {
          whole.push_back(id);
          continue;
        }
        ASSERT_FALSE(spans[id].empty());
        whole.insert(whole.end(), spans[id].begin(), spans[id].end());
      }
      EXPECT_EQ(whole, read(ids));
    }
  }
}

TEST(SpanCorruption, DependsOnSeedStepAndSampleAlone) {
  const auto corruption = corruption_of();
  const auto ids = texts_of(32, 60);
  auto context = context_of(32);
  const auto all = corrupt_spans(ids, corruption, context);
  // Rows 20 to 29 alone, as a rank or a micro-batch has them.
  const auto few = ids.narrow(0, 20, 10);
  context.samples = at::arange(20, 30, at::kLong);
  const auto some = corrupt_spans(few, corruption, context);
  EXPECT_TRUE(at::equal(some.labels, all.labels.narrow(0, 20, 10)));
  EXPECT_TRUE(at::equal(some.input_ids, all.input_ids.narrow(0, 20, 10)));
  context.step = 6;
  EXPECT_FALSE(at::equal(corrupt_spans(few, corruption, context).labels, some.labels));
  context.step = 5;
  context.seed = 8;
  EXPECT_FALSE(at::equal(corrupt_spans(few, corruption, context).labels, some.labels));
  // Evaluation asks for the same in whatever batch a text is.
  context.mode = nn::Mode::Evaluate;
  const auto evaluated = corrupt_spans(few, corruption, context);
  context.samples = at::zeros({1}, at::kLong);
  context.step = 9;
  const auto alone = corrupt_spans(ids.narrow(0, 22, 1), corruption, context);
  EXPECT_TRUE(at::equal(alone.labels[0], evaluated.labels[2]));
}

TEST(SpanCorruption, EveryPlaceIsHiddenAsOften) {
  constexpr int64_t kRows = 4000, kLength = 40;
  const auto corruption = corruption_of();  // 6 tokens in 2 spans
  auto ids = at::arange(2, kLength + 2, at::kLong).expand({kRows, kLength}).contiguous();
  const auto made = corrupt_spans(ids, corruption, context_of(kRows));
  std::vector<double> hidden(kLength);
  for (int64_t t = 0; t < kLength; ++t) {
    hidden[static_cast<size_t>(t)] = (made.labels == t + 2).sum().item<double>() / kRows;
  }
  EXPECT_EQ(hidden[0], 0) << "a text begins with what is left";
  // Every cut is as likely as another, as T5 draws them: the middle of all places is 0.15.
  double sum = 0;
  for (const double part : hidden) sum += part;
  EXPECT_NEAR(sum, 6, 1e-9);
  for (int64_t t = 6; t < 30; ++t) EXPECT_NEAR(hidden[static_cast<size_t>(t)], 0.13, 0.06) << t;
}

}  // namespace
}  // namespace convoy::masking
