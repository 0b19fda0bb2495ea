#include "convoy/data/mixture.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

using ::testing::HasSubstr;

const std::vector<MixtureSource> kTwo{{"large", 1000, 7}, {"small", 100, 3}};

std::string refusal(std::vector<MixtureSource> sources,
                    MixtureStop stop = MixtureStop::FirstExhausted) {
  try {
    Mixture(std::move(sources), stop);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Mixture, EndsWithTheFirstSourceOrTheLast) {
  const Mixture first(kTwo, MixtureStop::FirstExhausted), last(kTwo, MixtureStop::AllExhausted);
  EXPECT_EQ(first.num_rows(), 333);
  EXPECT_EQ(first.rows_of(0), 233);
  EXPECT_EQ(first.rows_of(1), 100);
  EXPECT_EQ(last.num_rows(), 1428);
  EXPECT_EQ(last.rows_of(0), 1000);
  EXPECT_EQ(last.rows_of(1), 428);
  EXPECT_EQ(first.num_source_rows(), 1100);
  // 0.7 x 10 is 7, whatever binary fractions make of it.
  const Mixture tenths({{"a", 7, 0.7}, {"b", 300, 0.3}}, MixtureStop::FirstExhausted);
  EXPECT_EQ(tenths.rows_of(0), 7);
  EXPECT_EQ(tenths.rows_of(1), 3);
}

TEST(Mixture, NoRowComesAgainBeforeAllOfItsSourceCame) {
  for (const auto stop : {MixtureStop::FirstExhausted, MixtureStop::AllExhausted}) {
    const Mixture mixture(kTwo, stop);
    std::map<int64_t, int> times;  // by row
    for (int64_t epoch = 0; epoch < 5; ++epoch) {
      std::map<size_t, int64_t> given;  // by source
      for (int64_t place = 0; place < mixture.num_rows(); ++place) {
        const int64_t row = mixture.row_of(42, epoch, place);
        EXPECT_EQ(mixture.source_of(place), row < 1000 ? 0U : 1U);
        ++given[mixture.source_of(place)];
        ++times[row];
      }
      EXPECT_EQ(given[0], mixture.rows_of(0));
      EXPECT_EQ(given[1], mixture.rows_of(1));
      for (const int64_t first : {0, 1000}) {
        const int64_t end = first == 0 ? 1000 : 1100;
        int least = INT32_MAX, most = 0;
        for (int64_t row = first; row < end; ++row) {
          least = std::min(least, times[row]);
          most = std::max(most, times[row]);
        }
        EXPECT_LE(most - least, 1) << "epoch " << epoch;
      }
    }
  }
}

TEST(Mixture, DrawsOtherRowsByEpochAndSeed) {
  const Mixture mixture(kTwo, MixtureStop::FirstExhausted);
  const auto rows = [&](uint64_t seed, int64_t epoch) {
    std::set<int64_t> out;
    for (int64_t place = 0; place < mixture.rows_of(0); ++place) {
      out.insert(mixture.row_of(seed, epoch, place));
    }
    return out;
  };
  EXPECT_EQ(rows(1, 0), rows(1, 0));
  EXPECT_NE(rows(1, 0), rows(2, 0));
  const auto first = rows(1, 0), second = rows(1, 1);
  for (const int64_t row : second) EXPECT_FALSE(first.contains(row));
}

TEST(Mixture, SaysWhatItTakesAndWhatIsWrong) {
  EXPECT_EQ(Mixture(kTwo, MixtureStop::AllExhausted).text(),
            "mixture: 1428 rows an epoch; large gives 1000 (70.0 %), 1.00 times its 1000; small "
            "gives 428 (30.0 %), 4.28 times its 100");
  EXPECT_THAT(refusal({{"a", 10, 1}, {"b", 10, 0}}), HasSubstr("b has the weight 0"));
  EXPECT_THAT(refusal({{"a", 10, 1}, {"b", 10, NAN}}), HasSubstr("expected a number above 0"));
  EXPECT_THAT(refusal({{"a", 0, 1}}), HasSubstr("a has no rows"));
  EXPECT_THAT(refusal({{"a", 10, 1}, {"b", 10, 1e-3}}),
              HasSubstr("b has a weight of 0.001 of 1.001, not one of an epoch's 10 rows"));
  EXPECT_THAT(refusal({{"a", 10, 1}, {"b", 10, 1e-13}}, MixtureStop::AllExhausted),
              HasSubstr("expected at most 2^40"));
}

TEST(Mixture, TellsChangedSourcesApart) {
  auto other = kTwo;
  other[1].sum = 1;
  EXPECT_NE(Mixture(kTwo, MixtureStop::FirstExhausted).identity(),
            Mixture(other, MixtureStop::FirstExhausted).identity());
  const std::vector<int32_t> ids{1, 2, 3}, turned{3, 2, 1};
  EXPECT_NE(sum_of_ids(ids), sum_of_ids(turned));
}

}  // namespace
}  // namespace convoy::data
