#include "convoy/parallel/layout.h"

#include <gtest/gtest.h>

#include <map>

#include "convoy/base/error.h"
#include "tests/parallel/testing.h"

namespace convoy::parallel {
namespace {

TEST(Layout, BucketsHoldAtLeastTheirSizeInBackwardOrder) {
  const auto one_each = tied_layout({.parallelism = {.bucket_bytes = 0}});
  ASSERT_EQ(one_each.num_buckets(), 4);
  EXPECT_EQ(one_each.table().backward_order(), (std::vector<int64_t>{3, 2, 0, 1}));
  EXPECT_EQ(one_each.table().last_reader_in_backward(1), 0);
  EXPECT_EQ(one_each.buckets()[3].units, std::vector<int64_t>{1});
  const auto two = tied_layout({.parallelism = {.bucket_bytes = 300}});
  ASSERT_EQ(two.num_buckets(), 2);
  EXPECT_EQ(two.buckets()[0].units, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(tied_layout().num_buckets(), 1);
}

TEST(Layout, EveryElementHasOneOwnerAndAPlaceOfItsOwn) {
  for (const int parts : {1, 2, 3, 4, 7, 8}) {
    for (const int64_t bytes : {0, 300, 1 << 20}) {
      const auto layout = tied_layout({.parallelism = {.bucket_bytes = bytes}, .num_parts = parts});
      std::map<std::pair<int64_t, int64_t>, int64_t> owned;  // (unit, parameter): elements
      std::vector<int> taken(static_cast<size_t>(layout.num_elements()));
      for (int rank = 0; rank < parts; ++rank) {
        for (const auto& piece : layout.pieces(rank)) {
          const auto& place = layout.units()[static_cast<size_t>(piece.unit)]
                                  .params[static_cast<size_t>(piece.param)];
          EXPECT_EQ(piece.place, place.begin + piece.begin);
          EXPECT_LE(piece.place + piece.length, place.end);
          owned[{piece.unit, piece.param}] += piece.length;
          for (int64_t i = 0; i < piece.length; ++i) ++taken[static_cast<size_t>(piece.place + i)];
        }
      }
      int64_t gaps = 0;
      for (int64_t bucket = 0; bucket < layout.num_buckets(); ++bucket) {
        EXPECT_EQ(layout.buckets()[static_cast<size_t>(bucket)].all.length() % (32 * parts), 0);
        for (const auto& gap : layout.gaps(bucket)) {
          gaps += gap.length();
          for (int64_t i = gap.begin; i < gap.end; ++i) ++taken[static_cast<size_t>(i)];
        }
      }
      EXPECT_EQ(gaps, layout.num_elements() - 25 - 900 - 33 - 32 - 18 - 12);
      for (const int times : taken) ASSERT_EQ(times, 1) << parts << " parts";
      EXPECT_EQ((owned[{1, 0}]), 900);
      EXPECT_EQ((owned[{1, 1}]), 33);
    }
  }
}

TEST(Layout, GapsOfAUnitAreWhatItsParametersLeave) {
  const auto layout = tied_layout({.parallelism = {.bucket_bytes = 0}, .num_parts = 3});
  int64_t gaps = 0;
  for (int64_t unit = 0; unit < layout.table().num_units(); ++unit) {
    const auto& place = layout.units()[static_cast<size_t>(unit)];
    int64_t left = place.all.length();
    for (const auto& param : place.params) left -= param.length();
    for (const auto& gap : layout.gaps_of_unit(unit)) {
      EXPECT_GE(gap.begin, place.all.begin);
      EXPECT_LE(gap.end, place.all.end);
      left -= gap.length();
      gaps += gap.length();
    }
    EXPECT_EQ(left, 0) << unit;
  }
  EXPECT_GT(gaps, 0);
}

TEST(Layout, DecayedParametersComeFirstAndBothBeginAtWholeLines) {
  const auto layout = tied_layout({.parallelism = {.bucket_bytes = 0}, .num_parts = 3});
  for (const auto& unit : layout.units()) {
    EXPECT_EQ(unit.all.begin % kAlignment, 0);
    EXPECT_EQ(unit.decay_end % kAlignment, 0);
    for (const auto& param : unit.params) EXPECT_EQ(param.begin % kAlignment, 0);
  }
  const auto& tied = layout.units()[1];
  EXPECT_LT(tied.params[0].begin, tied.decay_end);
  EXPECT_GE(tied.params[1].begin, tied.decay_end);
}

TEST(Layout, EachStageShardsMore) {
  struct Row {
    int stage;
    bool low;
    bool weights, masters, gradients, moments;
  };
  for (const auto& row :
       {Row{0, false, false, false, false, false}, Row{0, true, false, false, false, false},
        Row{1, false, false, false, false, true}, Row{1, true, false, true, false, true},
        Row{2, false, false, false, true, true}, Row{2, true, false, true, true, true},
        Row{3, false, true, true, true, true}, Row{3, true, true, true, true, true}}) {
    const auto layout =
        tied_layout({.parallelism = {.zero = row.stage}, .num_parts = 4, .low_precision = row.low});
    EXPECT_EQ(layout.is_sharded(Kind::Weights), row.weights) << row.stage;
    EXPECT_EQ(layout.is_sharded(Kind::Masters), row.masters) << row.stage;
    EXPECT_EQ(layout.is_sharded(Kind::Gradients), row.gradients) << row.stage;
    EXPECT_EQ(layout.is_sharded(Kind::Moments), row.moments) << row.stage;
    EXPECT_EQ(layout.kept(Kind::Moments), layout.num_elements() / (row.moments ? 4 : 1));
    EXPECT_EQ(layout.shares_out_updates(), row.stage > 0);
  }
  const auto alone = tied_layout({.parallelism = {.zero = 3}});
  EXPECT_FALSE(alone.is_sharded(Kind::Weights) || alone.shares_out_updates()) << "one rank";
}

using Owned = std::map<std::pair<int64_t, int64_t>, std::vector<int>>;  // (unit, parameter)

/// Like a model with GPT-2's cuts: q | k | v side by side, a tied table, what is not cut.
const ModelTable kTable{{{0, 1}, {2}, {3}, {4, 1}}, {}};
const std::vector<std::vector<ParamShape>> kParams{
    {{{7, 10}}},
    {{{13, 10}, true, {.dim = 0}}},
    {{{10, 30}, true, {.dim = 1, .parts = {10, 10, 10}, .granule = 2}},
     {{30}, false, {.dim = 0, .parts = {10, 10, 10}, .granule = 2}},
     {{10}, false}},
    {{{10, 10}, true, {.dim = 0, .granule = 2}}, {{3, 5, 4}, true, {.dim = 1}}},
    {{{10}, false}}};

TEST(Layout, PiecesOfStagesPartsAndTensorRanksCoverEachElementOnce) {
  const std::vector<std::vector<int64_t>> one_stage{{0, 1, 2, 3}}, two_stages{{0, 1}, {2, 3}},
      turns{{0, 2}, {1, 3}}, four_stages{{0}, {1}, {2}, {3}};
  for (const auto& stages : {one_stage, two_stages, turns, four_stages}) {
    for (const int tensors : {1, 2, 3, 4}) {
      for (const int parts : {1, 2, 3, 4}) {
        for (const int stage : {0, 1, 2, 3}) {
          Owned owned;
          for (size_t unit = 0; unit < kParams.size(); ++unit) {
            for (size_t p = 0; p < kParams[unit].size(); ++p) {
              owned[{unit, p}].resize(static_cast<size_t>(num_elements(kParams[unit][p].shape)));
            }
          }
          for (int at = 0; at < static_cast<int>(stages.size()); ++at) {
            for (int tensor = 0; tensor < tensors; ++tensor) {
              const Layout layout(kTable, kParams,
                                  {.parallelism = {.zero = stage, .bucket_bytes = 400},
                                   .num_parts = parts,
                                   .stages = stages,
                                   .pipeline_stage = at,
                                   .tensor = {tensor, tensors}});
              std::vector<int> taken(static_cast<size_t>(layout.num_elements()));
              for (int part = 0; part < parts; ++part) {
                std::vector<bool> counted(taken.size());
                for (int64_t bucket = 0; bucket < layout.num_buckets(); ++bucket) {
                  for (const auto& extent : layout.counted(bucket, part)) {
                    for (int64_t i = extent.begin; i < extent.end; ++i) {
                      ASSERT_FALSE(counted.at(static_cast<size_t>(i))) << "counted twice";
                      counted[static_cast<size_t>(i)] = true;
                    }
                  }
                }
                for (const auto& piece : layout.pieces(part)) {
                  auto& elements = owned[{piece.unit, piece.param}];
                  each_row(piece, [&](const Piece& row) {
                    for (int64_t i = 0; i < row.length; ++i) {
                      elements.at(static_cast<size_t>(row.begin + i)) += row.owned;
                      const auto place = static_cast<size_t>(row.place + i);
                      ++taken.at(place);
                      ASSERT_EQ(counted[place], row.owned) << "only owners count";
                    }
                  });
                }
              }
              for (int64_t bucket = 0; bucket < layout.num_buckets(); ++bucket) {
                for (const auto& gap : layout.gaps(bucket)) {
                  for (int64_t i = gap.begin; i < gap.end; ++i) ++taken[static_cast<size_t>(i)];
                }
              }
              ASSERT_EQ(taken, std::vector<int>(taken.size(), 1));
            }
          }
          for (const auto& [param, elements] : owned) {
            ASSERT_EQ(elements, std::vector<int>(elements.size(), 1))
                << "unit " << param.first << ", parameter " << param.second;
          }
        }
      }
    }
  }
}

TEST(Cut, ARankHasItsStretchOfEachPart) {
  const TensorCut cut{.dim = 1, .parts = {4, 4, 4}, .granule = 2};
  EXPECT_EQ(local_shape({5, 12}, cut, {1, 2}), (Shape{5, 6}));
  EXPECT_EQ(boxes({5, 12}, cut, {1, 2}),
            (std::vector<TensorBox>{
                {{0, 2}, {5, 2}, {0, 0}}, {{0, 6}, {5, 2}, {0, 2}}, {{0, 10}, {5, 2}, {0, 4}}}));
  // The second row's q, k and v, and what begins the third.
  EXPECT_EQ(
      runs({5, 12}, cut, {1, 2}, 6, 7),
      (std::vector<parallel::StridedRange>{{14, 6, 2}, {18, 8, 2}, {22, 10, 2}, {26, 12, 1}}));
  EXPECT_EQ(runs({12, 5}, {.dim = 0}, {1, 2}, 3, 20),
            (std::vector<parallel::StridedRange>{{33, 3, 20}}));
  // Rows of which all is asked for are one run for each part.
  EXPECT_EQ(runs({5, 12}, cut, {1, 2}, 4, 20),
            (std::vector<parallel::StridedRange>{{10, 4, 2},
                                                 {14, 6, 2, true, 3, 12, 6},
                                                 {18, 8, 2, true, 3, 12, 6},
                                                 {22, 10, 2, true, 3, 12, 6}}));
  // As equal as whole granules allow.
  EXPECT_EQ(local_shape({50257, 8}, {.dim = 0}, {3, 4}), (Shape{12565, 8}));
  EXPECT_EQ(local_shape({4, 6}, {.dim = 0, .granule = 2}, {0, 3}), (Shape{0, 6}));
  EXPECT_THROW(boxes({5, 13}, cut, {0, 2}), InternalError);
}

TEST(Cut, PartsMayHaveGranulesOfTheirOwn) {
  // Three heads of keys for queries and for keys, and values for each.
  TensorCut cut{.dim = 0, .parts = {6, 6, 24}};
  cut.part_granules = {2, 2, 8};
  EXPECT_EQ(local_shape({36, 5}, cut, {0, 2}), (Shape{12, 5}));
  EXPECT_EQ(boxes({36, 5}, cut, {1, 2}),
            (std::vector<TensorBox>{
                {{2, 0}, {4, 5}, {0, 0}}, {{8, 0}, {4, 5}, {4, 0}}, {{20, 0}, {16, 5}, {8, 0}}}));
  EXPECT_EQ(most_ranks({36, 5}, cut), 3);
  EXPECT_FALSE(overlaps({36, 5}, cut, 2));
}

// A matrix that is cut along its inner dimension is a piece for each part, however many rows it
// has.
TEST(Cut, RunsOfAnyElementsAreEachOfThemOnce) {
  for (const auto& [shape, cut] :
       {std::pair<Shape, TensorCut>{{7, 12}, {.dim = 1, .parts = {6, 2, 4}}},
        {{4, 6, 2}, {.dim = 1, .granule = 2, .readers = 2}},
        {{3, 2, 5}, {.dim = 0}},
        {{6, 4}, {.dim = 1, .granule = 4, .readers = 3}}}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int64_t all = num_elements(local_shape(shape, cut, {rank, ranks}));
        std::vector<int64_t> whole(static_cast<size_t>(all), -1);  // element by element
        for (int64_t i = 0; i < all; ++i) {
          const auto one = runs(shape, cut, {rank, ranks}, i, 1);
          ASSERT_EQ(one.size(), 1U);
          EXPECT_EQ(one[0].local, i);
          whole[static_cast<size_t>(i)] = one[0].global;
        }
        EXPECT_LE(runs(shape, cut, {rank, ranks}, 0, all).size(), 6U);
        for (int64_t begin = 0; begin < all; ++begin) {
          for (int64_t end = begin + 1; end <= all; ++end) {
            std::vector<int> seen(static_cast<size_t>(all), 0);
            for (const auto& run : runs(shape, cut, {rank, ranks}, begin, end - begin)) {
              for (int64_t row = 0; row < run.rows; ++row) {
                for (int64_t i = 0; i < run.length; ++i) {
                  const auto at = static_cast<size_t>(run.local + row * run.local_stride + i);
                  ++seen.at(at);
                  ASSERT_EQ(run.global + row * run.global_stride + i, whole[at]);
                }
              }
            }
            for (int64_t i = 0; i < all; ++i) {
              ASSERT_EQ(seen[static_cast<size_t>(i)], i >= begin && i < end);
            }
          }
        }
      }
    }
  }
}

// Three heads of keys, each of which two heads of queries read.
TEST(Cut, StretchesOfWhatIsReadOverlapAndEachGranuleHasOneOwner) {
  const TensorCut cut{.dim = 0, .granule = 2, .readers = 2};
  EXPECT_EQ(most_ranks({6, 5}, cut), 6);
  EXPECT_TRUE(overlaps({6, 5}, cut, 2));
  EXPECT_FALSE(overlaps({6, 5}, cut, 3));
  EXPECT_EQ(boxes({6, 5}, cut, {0, 2}), (std::vector<TensorBox>{{{0, 0}, {4, 5}, {0, 0}}}));
  EXPECT_EQ(boxes({6, 5}, cut, {1, 2}),
            (std::vector<TensorBox>{{{2, 0}, {2, 5}, {0, 0}, false}, {{4, 0}, {2, 5}, {2, 0}}}));
  EXPECT_EQ(runs({6, 5}, cut, {1, 2}, 0, 20),
            (std::vector<parallel::StridedRange>{{10, 0, 10, false}, {20, 10, 10}}));
  for (int ranks = 1; ranks <= 6; ++ranks) {
    std::vector<int> owners(30, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      LayoutOptions options;
      options.tensor = {rank, ranks};
      const Layout layout({.units_of_block = {{0}}, .unit_bytes = {0}}, {{{{6, 5}, true, cut}}},
                          options);
      int64_t counted = 0, owned = 0;
      for (const auto& extent : layout.counted(0, 0)) counted += extent.length();
      for (const auto& piece : layout.pieces(0)) {
        EXPECT_EQ(piece.rows, 1);
        owned += piece.owned ? piece.length : 0;
        for (int64_t i = 0; i < piece.length && piece.owned; ++i) {
          ++owners[static_cast<size_t>(piece.begin + i)];
        }
      }
      for (const auto& gap : layout.gaps(0)) owned += gap.length();
      EXPECT_EQ(counted, owned);
    }
    EXPECT_EQ(owners, std::vector<int>(30, 1)) << ranks << " ranks";
  }
}

TEST(Cut, CommonBoxesCoverWhatSeveralRanksHold) {
  const TensorCut keys{.dim = 0, .granule = 2, .readers = 2};
  EXPECT_EQ(common_boxes({6, 5}, keys, {0, 2}),
            (std::vector<TensorBox>{{{0, 0}, {2, 5}, {0, 0}}, {{2, 0}, {2, 5}, {2, 0}}}));
  EXPECT_EQ(common_boxes({6, 5}, keys, {1, 2}),
            (std::vector<TensorBox>{{{2, 0}, {2, 5}, {0, 0}, false}, {{4, 0}, {2, 5}, {2, 0}}}));
  EXPECT_EQ(common_boxes({6, 5}, keys, {0, 3}), boxes({6, 5}, keys, {0, 3})) << "none is shared";
  // Queries beside keys: six heads and three, of which rank 1 has three and two.
  const TensorCut both{.dim = 0, .parts = {12, 6}, .granule = 2, .part_readers = {1, 2}};
  EXPECT_EQ(
      common_boxes({18, 5}, both, {1, 2}),
      (std::vector<TensorBox>{
          {{6, 0}, {6, 5}, {0, 0}}, {{14, 0}, {2, 5}, {6, 0}, false}, {{16, 0}, {2, 5}, {8, 0}}}));
}

TEST(Layout, BucketsThatStayWholeLieBetweenShards) {
  for (const bool low : {false, true}) {
    LayoutOptions options{
        .parallelism = {.zero = 3, .bucket_bytes = 0}, .num_parts = 2, .low_precision = low};
    options.parallelism.keep_bytes = 300;  // all but the table
    const auto layout = tied_layout(options);
    for (const int rank : {0, 1}) {
      for (const Kind kind : {Kind::Weights, Kind::Masters, Kind::Gradients, Kind::Moments}) {
        const bool keeps = kind == Kind::Weights || (kind == Kind::Masters && !low);
        int64_t expected = 0;
        for (int64_t bucket = 0; bucket < layout.num_buckets(); ++bucket) {
          EXPECT_EQ(layout.is_sharded(kind, bucket), !keeps || bucket == 3);
          const auto all = layout.is_sharded(kind, bucket)
                               ? layout.part(bucket, rank)
                               : layout.buckets()[static_cast<size_t>(bucket)].all;
          EXPECT_EQ(layout.place_in(kind, bucket, rank, all.begin), expected);
          expected += all.length();
        }
        EXPECT_EQ(expected, layout.kept(kind));
      }
    }
    options.parallelism.offload.parameters = Place::Cpu;
    EXPECT_TRUE(tied_layout(options).is_sharded(Kind::Weights, 0)) << "the disk has all";
  }
}

TEST(Layout, FrozenParametersComeLastAndHaveWeightsOnly) {
  for (const int stage : {0, 3}) {
    const LayoutOptions options{.parallelism = {.zero = stage, .bucket_bytes = 1 << 20},
                                .num_parts = 2};
    const auto layout = frozen_layout(options), trained = tied_layout(options);
    ASSERT_EQ(layout.num_buckets(), 2);
    EXPECT_EQ(layout.num_trained_buckets(), 1);
    EXPECT_EQ(layout.buckets()[1].units, std::vector<int64_t>{4});
    EXPECT_EQ(layout.buckets()[0].all, trained.buckets()[0].all);
    for (const Kind kind : {Kind::Gradients, Kind::Moments}) {
      EXPECT_EQ(layout.kept(kind), trained.kept(kind));
    }
    EXPECT_EQ(layout.kept(Kind::Weights) - trained.kept(Kind::Weights), stage == 3 ? 32 : 64);
    auto low = options;
    low.low_precision = true;
    const auto halves = frozen_layout(low), of_trained = tied_layout(low);
    EXPECT_EQ(halves.kept(Kind::Masters), of_trained.kept(Kind::Masters)) << "the rest has none";
    EXPECT_EQ(halves.num_buckets(Kind::Masters), 1);
    EXPECT_EQ(halves.held_as(Kind::Masters, 0), Kind::Masters);
    EXPECT_EQ(halves.held_as(Kind::Masters, 1), Kind::Weights);
    EXPECT_EQ(layout.held_as(Kind::Masters, 0), Kind::Weights) << "of fp32";
  }
}

TEST(Layout, ShardsLieOneAfterTheOther) {
  const auto layout = tied_layout({.parallelism = {.zero = 3, .bucket_bytes = 0}, .num_parts = 2});
  for (const int rank : {0, 1}) {
    int64_t expected = 0;
    for (int64_t bucket = 0; bucket < layout.num_buckets(); ++bucket) {
      const auto part = layout.part(bucket, rank);
      EXPECT_EQ(layout.place_in(Kind::Moments, bucket, rank, part.begin), expected);
      expected += part.length();
    }
    EXPECT_EQ(expected, layout.kept(Kind::Moments));
  }
}

TEST(BucketCutter, BeginsABucketWhereTheLastIsFullOrTheKindChanges) {
  BucketCutter cutter(100);
  EXPECT_TRUE(cutter.begins(60));
  EXPECT_FALSE(cutter.begins(60));
  EXPECT_TRUE(cutter.begins(60));
  EXPECT_TRUE(cutter.begins(40, /*other_kind=*/true));
  EXPECT_FALSE(cutter.begins(60));
  EXPECT_TRUE(cutter.begins(1));
}

}  // namespace
}  // namespace convoy::parallel
