#include "convoy/parallel/program/program.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/parallel/program/check.h"
#include "tests/parallel/testing.h"

namespace convoy::parallel {
namespace {

int64_t count(const Program& program, Op op) {
  return std::count_if(program.begin(), program.end(),
                       [op](const Instruction& i) { return i.op == op; });
}

TEST(Program, ATiedUnitIsReducedAfterItsLastReader) {
  const auto layout = tied_layout({.parallelism = {.bucket_bytes = 0}});
  EXPECT_EQ(
      to_text(data_parallel_program(layout, {})),
      "load, micro-batch 0\nforward block 0, micro-batch 0\nforward block 1, micro-batch 0\n"
      "forward block 2, micro-batch 0\nloss, micro-batch 0\nbackward block 2, micro-batch 0\n"
      "accumulate unit 3, micro-batch 0\nreduce bucket 0\nbackward block 1, micro-batch 0\n"
      "accumulate unit 2, micro-batch 0\nreduce bucket 1\nbackward block 0, micro-batch 0\n"
      "accumulate unit 0, micro-batch 0\nreduce bucket 2\naccumulate unit 1, micro-batch 0\n"
      "reduce bucket 3\nreduce loss\nclip\nupdate bucket 3\nupdate bucket 2\nupdate bucket 1\n"
      "update bucket 0\n");
}

TEST(Program, GradientsAreReducedOnceWhateverTheAccumulation) {
  for (const int stage : {0, 1}) {
    const auto layout =
        tied_layout({.parallelism = {.zero = stage, .bucket_bytes = 300}, .num_parts = 2});
    const auto program = data_parallel_program(layout, {.parallelism = {.micro_batches = 3}});
    EXPECT_EQ(count(program, stage == 0 ? Op::Reduce : Op::ReduceScatter), 2);
    EXPECT_EQ(count(program, Op::Accumulate), 12);
  }
}

TEST(Program, GradientsInShardsAreReducedEachTimeUnlessTold) {
  const auto layout =
      tied_layout({.parallelism = {.zero = 2, .bucket_bytes = 300}, .num_parts = 2});
  EXPECT_EQ(count(data_parallel_program(layout, {.parallelism = {.micro_batches = 3}}),
                  Op::ReduceScatter),
            6);
  const StepOptions last{.parallelism = {.micro_batches = 3, .reduce_each = false}};
  EXPECT_EQ(count(data_parallel_program(layout, last), Op::ReduceScatter), 2);
}

TEST(Program, UpdatedWeightsAreGatheredInTheOrderOfForward) {
  const auto layout =
      tied_layout({.parallelism = {.zero = 1, .bucket_bytes = 300}, .num_parts = 2});
  const auto text = to_text(data_parallel_program(layout, {}));
  EXPECT_TRUE(
      text.ends_with("clip\nupdate bucket 1\ngather bucket 1\nupdate bucket 0\n"
                     "gather bucket 0\n"))
      << text;
}

TEST(Program, WeightsInShardsAreGatheredAheadAndReleased) {
  const auto layout = tied_layout({.parallelism = {.zero = 3, .bucket_bytes = 0}, .num_parts = 2});
  EXPECT_EQ(to_text(forward_program(layout, {.parallelism = {.gathers = {.prefetch = 1}}})),
            "gather bucket 2\nload, micro-batch 0\ngather bucket 3\ngather bucket 1\n"
            "forward block 0, micro-batch 0\nrelease bucket 2\n"
            "gather bucket 0\nforward block 1, micro-batch 0\nrelease bucket 1\n"
            "forward block 2, micro-batch 0\nrelease bucket 3\nrelease bucket 0\n");
}

TEST(Program, SmallBucketsStayWholeAndAreGatheredAfterTheirUpdate) {
  const auto layout = tied_layout(
      {.parallelism = {.zero = 3, .bucket_bytes = 0, .keep_bytes = 300}, .num_parts = 2});
  EXPECT_EQ(to_text(forward_program(layout, {.parallelism = {.gathers = {.prefetch = 1}}})),
            "gather bucket 3\nload, micro-batch 0\nforward block 0, micro-batch 0\n"
            "forward block 1, micro-batch 0\nforward block 2, micro-batch 0\n"
            "release bucket 3\n");
  const auto text = to_text(data_parallel_program(layout, {}));
  EXPECT_TRUE(
      text.ends_with("clip\nupdate bucket 3\nupdate bucket 2\ngather bucket 2\n"
                     "update bucket 1\ngather bucket 1\nupdate bucket 0\ngather bucket 0\n"))
      << text;
  EXPECT_EQ(most_gathered(data_parallel_program(layout, {}), layout),
            layout.buckets()[3].all.length());
}

TEST(Program, FrozenWeightsAreGatheredOnlyWhereTheyAreInShards) {
  for (const int stage : {1, 3}) {
    const auto layout =
        frozen_layout({.parallelism = {.zero = stage, .bucket_bytes = 0}, .num_parts = 2});
    const auto text =
        to_text(data_parallel_program(layout, {.parallelism = {.gathers = {.prefetch = 0}}}));
    for (const char* never : {"accumulate unit 4", "bucket 4, micro-batch", "update bucket 4"}) {
      EXPECT_EQ(text.find(never), std::string::npos) << never << " in\n" << text;
    }
    EXPECT_EQ(text.find("gather bucket 4") != std::string::npos, stage == 3) << text;
  }
}

TEST(Program, BackwardGathersNothingThatItDoesNotRead) {
  const auto layout = tied_layout({.parallelism = {.zero = 3, .bucket_bytes = 0}, .num_parts = 2});
  const auto program = data_parallel_program(layout, {.parallelism = {.gathers = {.prefetch = 0}}});
  int64_t table = 0;
  bool backward = false;
  for (const auto& i : program) {
    backward |= i.op == Op::Backward;
    table += i.op == Op::Gather && i.bucket == layout.bucket_of(1);
    EXPECT_FALSE(backward && i.op == Op::Gather && i.bucket == layout.bucket_of(1));
  }
  EXPECT_EQ(table, 1) << "for the first and for the last block";
}

TEST(Program, MoreMemoryBuysFewerGathers) {
  const auto layout = tied_layout({.parallelism = {.zero = 3, .bucket_bytes = 0}, .num_parts = 2});
  const auto none = data_parallel_program(layout, {.parallelism = {.gathers = {.prefetch = 0}}});
  const auto ahead = data_parallel_program(layout, {.parallelism = {.gathers = {.prefetch = 2}}});
  const auto kept = data_parallel_program(
      layout, {.parallelism = {.gathers = {.prefetch = 0, .reshard_after_forward = false}}});
  EXPECT_LT(most_gathered(none, layout), most_gathered(ahead, layout));
  EXPECT_LT(count(kept, Op::Gather), count(none, Op::Gather));
  EXPECT_EQ(most_gathered(kept, layout), layout.num_elements());
  EXPECT_EQ(most_gathered(none, tied_layout()), 0);
}

/// Every layout that a step program is made for.
std::vector<Layout> layouts() {
  std::vector<Layout> out;
  for (const int stage : {0, 1, 2, 3}) {
    for (const int64_t bytes : {0, 300, 1 << 20}) {
      out.push_back(
          tied_layout({.parallelism = {.zero = stage, .bucket_bytes = bytes}, .num_parts = 2}));
    }
  }
  out.push_back(
      tied_layout({.parallelism = {.bucket_bytes = 300}, .num_parts = 2, .shares_weights = true}));
  for (const int stage : {0, 1, 2, 3}) {
    out.push_back(
        frozen_layout({.parallelism = {.zero = stage, .bucket_bytes = 0}, .num_parts = 2}));
  }
  for (const int64_t keep : {300, 1 << 20}) {
    LayoutOptions options{.parallelism = {.zero = 3, .bucket_bytes = 0, .keep_bytes = keep},
                          .num_parts = 2};
    out.push_back(frozen_layout(options));
    options.low_precision = true;
    options.parallelism.offload.gradients = Place::Cpu;
    out.push_back(tied_layout(options));
  }
  for (const int parts : {1, 2}) {
    for (const int64_t bytes : {0, 300, 1 << 20}) {
      for (const bool low : {false, true}) {
        LayoutOptions options{
            .parallelism = {.bucket_bytes = bytes}, .num_parts = parts, .low_precision = low};
        options.parallelism.offload.optimizer = Place::Cpu;
        out.push_back(tied_layout(options));
        options.parallelism.zero = 2;
        options.parallelism.offload.gradients = Place::Cpu;
        out.push_back(tied_layout(options));
        options.parallelism.zero = 3;
        options.parallelism.offload.parameters = Place::Cpu;
        out.push_back(tied_layout(options));
        out.push_back(frozen_layout(options));
        options.parallelism.offload.optimizer = Place::Device;
        out.push_back(tied_layout(options));
      }
    }
  }
  return out;
}

TEST(Program, CheckerAcceptsWhatIsMadeAndRefusesEveryOmissionAndRepetition) {
  for (const auto& layout : layouts()) {
    for (const int64_t prefetch : {0, 1, 3}) {
      for (const bool each : {true, false}) {
        const StepOptions options{.parallelism = {.micro_batches = 2,
                                                  .gathers = {.prefetch = prefetch},
                                                  .reduce_each = each},
                                  .recomputed = {0}};
        const auto program = data_parallel_program(layout, options);
        check(program, layout, options);
        for (size_t i = 0; i < program.size(); ++i) {
          auto broken = program;
          broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(i));
          EXPECT_THROW(check(broken, layout, options), InternalError) << to_text(program[i]);
          broken = program;
          broken.insert(broken.begin() + static_cast<std::ptrdiff_t>(i), program[i]);
          EXPECT_THROW(check(broken, layout, options), InternalError) << to_text(program[i]);
        }
      }
    }
  }
}

std::string refusal_of_forward(const Program& program, const Layout& layout) {
  try {
    check_forward({{program, layout}});
  } catch (const InternalError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Program, CheckerNamesEveryOmissionAndRepetitionInAForwardProgram) {
  for (const auto& layout : layouts()) {
    for (const int64_t prefetch : {0, 1, 3}) {
      const auto program =
          forward_program(layout, {.parallelism = {.gathers = {.prefetch = prefetch}}});
      EXPECT_EQ(refusal_of_forward(program, layout), "accepted");
      for (size_t i = 0; i < program.size(); ++i) {
        const auto name = "'" + to_text(program[i]) + "'";
        auto broken = program;
        broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(i));
        const auto omitted = refusal_of_forward(broken, layout);
        EXPECT_NE(omitted.find(name), std::string::npos) << name << " is not there: " << omitted;
        broken.insert(broken.begin() + static_cast<std::ptrdiff_t>(i), 2, program[i]);
        const auto twice = refusal_of_forward(broken, layout);
        EXPECT_NE(twice.find(name), std::string::npos) << name << " is there twice: " << twice;
      }
    }
  }
  auto trains = forward_program(tied_layout(), {});
  trains.push_back({.op = Op::Loss, .micro_batch = 0});
  EXPECT_NE(refusal_of_forward(trains, tied_layout())
                .find("'loss, micro-batch 0' is no part of a forward program"),
            std::string::npos);
}

TEST(Program, OffloadedStateIsFetchedABucketAheadOfItsUpdate) {
  const auto layout =
      tied_layout({.parallelism = {.bucket_bytes = 300, .offload = {.optimizer = Place::Cpu}}});
  const auto text = to_text(data_parallel_program(layout, {}));
  EXPECT_TRUE(
      text.ends_with("fetch moments of bucket 1\nreduce loss\nclip\n"
                     "fetch moments of bucket 0\nupdate bucket 1\nstore moments of bucket 1\n"
                     "update bucket 0\nstore moments of bucket 0\n"))
      << text;
}

TEST(Program, OffloadedWeightsAreFetchedAGatherAheadAndGradientsStoredWhileTheNextOneIsSummed) {
  LayoutOptions options{.parallelism = {.zero = 3, .bucket_bytes = 300}, .num_parts = 2};
  options.parallelism.offload.gradients = options.parallelism.offload.parameters = Place::Cpu;
  const auto layout = tied_layout(options);
  const auto program = data_parallel_program(
      layout, {.parallelism = {.micro_batches = 2, .gathers = {.prefetch = 0}}});
  const auto at = [&](const char* text, int nth) {
    for (size_t i = 0; i < program.size(); ++i) {
      if (to_text(program[i]) == text && nth-- == 0) return i;
    }
    return program.size();
  };
  EXPECT_EQ(at("fetch weights of bucket 1", 0), 0U);
  EXPECT_LT(at("fetch weights of bucket 0", 0), at("gather bucket 1", 0));
  EXPECT_LT(at("backward block 0, micro-batch 0", 0), at("store gradients of bucket 0", 0));
  EXPECT_EQ(at("store gradients of bucket 0", 0) + 1,
            at("reduce-scatter bucket 1, micro-batch 0", 0));
  EXPECT_LT(at("fetch gradients of bucket 0", 0), at("reduce-scatter bucket 0, micro-batch 1", 0));
  EXPECT_GT(at("fetch gradients of bucket 0", 0), at("backward block 2, micro-batch 0", 0));
  EXPECT_EQ(count(program, Op::Store), 2 * 2 + 2);
}

TEST(Program, BlocksAreRecomputedRightBeforeTheirBackward) {
  const auto layout = tied_layout({.parallelism = {.bucket_bytes = 0}});
  const StepOptions options{.parallelism = {.micro_batches = 2}, .recomputed = {0, 1}};
  const auto program = data_parallel_program(layout, options);
  check(program, layout, options);
  for (size_t i = 0; i + 1 < program.size(); ++i) {
    if (program[i].op != Op::Recompute) continue;
    EXPECT_EQ(program[i + 1], (Instruction{.op = Op::Backward,
                                           .block = program[i].block,
                                           .micro_batch = program[i].micro_batch}));
    auto late = program;
    std::swap(late[i], late[i + 1]);
    EXPECT_THROW(check(late, layout, options), InternalError);
  }
  EXPECT_EQ(count(program, Op::Recompute), 4);
  auto last = program;
  last.insert(last.begin() + 5, Instruction{.op = Op::Recompute, .block = 2, .micro_batch = 0});
  EXPECT_THROW(check(last, layout, options), InternalError);
}

TEST(Program, CheckerRefusesEarlyReduction) {
  const auto layout = tied_layout({.parallelism = {.bucket_bytes = 0}});
  auto program = data_parallel_program(layout, {});
  std::swap(program[6], program[7]);  // accumulate and reduce of the first bucket
  EXPECT_THROW(check(program, layout, {}), InternalError);
}

TEST(Program, CheckerNamesAReadOfWeightsThatAreNotThere) {
  const auto layout = tied_layout({.parallelism = {.zero = 3, .bucket_bytes = 0}, .num_parts = 2});
  auto program = data_parallel_program(layout, {});
  std::erase_if(program, [&](const Instruction& i) {
    return (i.op == Op::Gather || i.op == Op::Release) && i.bucket == 1;
  });
  try {
    check(program, layout, {});
    FAIL() << "accepted";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("forward block 1"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace convoy::parallel
