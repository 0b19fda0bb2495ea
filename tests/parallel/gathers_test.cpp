#include <gtest/gtest.h>

#include "convoy/parallel/program/program.h"
#include "convoy/parallel/zero/least_gathers.h"

namespace convoy::parallel {
namespace {

constexpr int64_t kNumBlocks = 24, kElements = 960;

/// Blocks that each read one unit, all of one size, which has a bucket of its own.
Layout of_equal_blocks(const Parallelism& parallelism) {
  ModelTable table;
  Layout::Shapes shapes;
  for (int64_t block = 0; block < kNumBlocks; ++block) {
    table.units_of_block.push_back({block});
    shapes.push_back({{{kElements}}});
  }
  return {std::move(table), std::move(shapes), {.parallelism = parallelism, .num_parts = 2}};
}

int64_t gathered_in(const Program& program, const Layout& layout) {
  int64_t out = 0;
  for (const auto& i : program) {
    if (i.op != Op::Gather) continue;
    out += layout.buckets()[static_cast<size_t>(i.bucket)].all.length();
  }
  return out;
}

// A plan that is passed over because of its bound must not be the fastest.
TEST(LeastGathers, AreNoMoreThanThoseOfAStep) {
  for (const int64_t prefetch : {0, 1, 4}) {
    for (const bool reshards : {true, false}) {
      for (const int64_t micro_batches : {1, 3}) {
        const Parallelism parallelism{
            .micro_batches = micro_batches,
            .zero = 3,
            .gathers = {.prefetch = prefetch, .reshard_after_forward = reshards},
            .bucket_bytes = 0};
        const auto layout = of_equal_blocks(parallelism);
        const auto program = data_parallel_program(layout, {.parallelism = parallelism});
        constexpr double kAll = kNumBlocks * kElements;
        const auto least = least_gathers(parallelism, kAll, kAll, kElements);
        const auto bound = static_cast<double>(least.times) * least.elements;
        const auto gathered = static_cast<double>(gathered_in(program, layout));
        EXPECT_LE(bound, gathered) << prefetch << reshards << micro_batches;
        EXPECT_GT(bound, gathered / 2) << prefetch << reshards << micro_batches;
      }
    }
  }
}

}  // namespace
}  // namespace convoy::parallel
