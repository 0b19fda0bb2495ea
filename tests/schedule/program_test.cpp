#include "convoy/schedule/program.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace convoy::schedule {
namespace {

// Three blocks; unit 1 (a tied embedding) is read by the first and the last.
ModelTable tied() {
  return {{{0, 1}, {2}, {3, 1}}, {100, 4000, 200, 50}};
}

TEST(Program, ATiedUnitIsReducedAfterItsLastReader) {
  auto table = tied();
  EXPECT_EQ(table.last_reader_in_backward(1), 0);
  EXPECT_EQ(table.backward_order(), (std::vector<int64_t>{3, 2, 0, 1}));
  auto buckets = make_buckets(table, 0);
  EXPECT_EQ(buckets.size(), 4u);
  auto text = to_text(data_parallel_program(table, buckets, 1));
  EXPECT_EQ(text,
            "load, micro-batch 0\nforward block 0, micro-batch 0\nforward block 1, micro-batch 0\n"
            "forward block 2, micro-batch 0\nloss, micro-batch 0\nbackward block 2, micro-batch 0\n"
            "accumulate unit 3, micro-batch 0\nreduce bucket 0\nbackward block 1, micro-batch 0\n"
            "accumulate unit 2, micro-batch 0\nreduce bucket 1\nbackward block 0, micro-batch 0\n"
            "accumulate unit 0, micro-batch 0\nreduce bucket 2\naccumulate unit 1, micro-batch 0\n"
            "reduce bucket 3\nreduce loss\nclip\noptimizer step\n");
}

TEST(Program, BucketsHoldAtLeastTheirSize) {
  EXPECT_EQ(make_buckets(tied(), 250), (std::vector<std::vector<int64_t>>{{3, 2}, {0, 1}}));
  EXPECT_EQ(make_buckets(tied(), 1 << 20).size(), 1u);
}

TEST(Program, GradientsAreReducedOnceWhateverTheAccumulation) {
  auto table = tied();
  auto buckets = make_buckets(table, 250);
  auto program = data_parallel_program(table, buckets, 3);
  int reduces = 0, accumulates = 0;
  for (const auto& i : program) {
    reduces += i.op == Op::Reduce;
    accumulates += i.op == Op::Accumulate;
  }
  EXPECT_EQ(reduces, 2);
  EXPECT_EQ(accumulates, 12);
}

TEST(Program, TheCheckerAcceptsWhatIsMadeAndRefusesEveryOmission) {
  auto table = tied();
  auto buckets = make_buckets(table, 250);
  auto program = data_parallel_program(table, buckets, 2);
  check(program, table, buckets, 2);
  for (size_t i = 0; i < program.size(); ++i) {
    auto broken = program;
    broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THROW(check(broken, table, buckets, 2), InternalError) << to_text(program[i]);
    broken = program;
    broken.insert(broken.begin() + static_cast<std::ptrdiff_t>(i), program[i]);
    EXPECT_THROW(check(broken, table, buckets, 2), InternalError) << to_text(program[i]);
  }
}

TEST(Program, BlocksAreRecomputedRightBeforeTheirBackward) {
  auto table = tied();
  auto buckets = make_buckets(table, 0);
  auto program = data_parallel_program(table, buckets, 2, {0, 1});
  check(program, table, buckets, 2);
  size_t found = 0;
  for (size_t i = 0; i + 1 < program.size(); ++i) {
    if (program[i].op != Op::Recompute) continue;
    ++found;
    EXPECT_EQ(program[i + 1],
              (Instruction{Op::Backward, program[i].block, -1, program[i].micro_batch}));
    auto twice = program;
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(i), program[i]);
    EXPECT_THROW(check(twice, table, buckets, 2), InternalError);
    auto late = program;
    std::swap(late[i], late[i + 1]);
    EXPECT_THROW(check(late, table, buckets, 2), InternalError);
  }
  EXPECT_EQ(found, 4u);
  auto last = program;
  last.insert(last.begin() + 5, Instruction{Op::Recompute, 2, -1, 0});
  EXPECT_THROW(check(last, table, buckets, 2), InternalError);
}

TEST(Program, TheCheckerRefusesEarlyReduction) {
  auto table = tied();
  auto buckets = make_buckets(table, 0);
  auto program = data_parallel_program(table, buckets, 1);
  auto reduce = program;
  std::swap(reduce[6], reduce[7]);  // accumulate and reduce of the first bucket
  EXPECT_THROW(check(reduce, table, buckets, 1), InternalError);
}

}  // namespace
}  // namespace convoy::schedule
