#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/parallel/program/check.h"
#include "convoy/parallel/program/memory.h"
#include "convoy/parallel/run_plan/run_plan.h"

// Tables that are kept by rows: what a step and an evaluation do for them, and what they take.
namespace convoy::parallel {
namespace {

using testing::HasSubstr;

/// Three blocks, of which the first and the last read a table of 11 rows of 4.
Layout with_table(LayoutOptions options = {}) {
  options.parallelism.row_tables = true;
  ParamShape table{{11, 4}};
  table.row_reads = RowReads{3, 2};
  return Layout({{{0, 1}, {2}, {3, 1}}, {}},
                {{{{25}}}, {table}, {{{32}}, {{18}, false}}, {{{12}, false}}}, options);
}

TEST(Rows, AreFetchedBeforeAndUpdatedBehindWhatTheFlatBuffersHold) {
  const auto layout = with_table({.parallelism = {.bucket_bytes = 1 << 20}, .num_parts = 2});
  EXPECT_EQ(layout.num_elements(), 128) << "the table has no place";
  EXPECT_EQ(layout.kept_rows(1, 0), 6);
  EXPECT_EQ(layout.kept_rows(1, 1), 5);
  EXPECT_EQ(
      to_text(data_parallel_program(layout, {.parallelism = {.micro_batches = 2}})),
      "fetch rows of unit 1\nload, micro-batch 0\nforward block 0, micro-batch 0\n"
      "forward block 1, micro-batch 0\nforward block 2, micro-batch 0\nloss, micro-batch 0\n"
      "backward block 2, micro-batch 0\naccumulate unit 3, micro-batch 0\n"
      "backward block 1, micro-batch 0\naccumulate unit 2, micro-batch 0\n"
      "backward block 0, micro-batch 0\naccumulate unit 1, micro-batch 0\n"
      "accumulate unit 0, micro-batch 0\nload, micro-batch 1\nforward block 0, micro-batch 1\n"
      "forward block 1, micro-batch 1\nforward block 2, micro-batch 1\nloss, micro-batch 1\n"
      "backward block 2, micro-batch 1\naccumulate unit 3, micro-batch 1\n"
      "backward block 1, micro-batch 1\naccumulate unit 2, micro-batch 1\n"
      "backward block 0, micro-batch 1\naccumulate unit 1, micro-batch 1\nreduce rows of unit 1\n"
      "accumulate unit 0, micro-batch 1\nreduce bucket 0\nreduce loss\nclip\nupdate bucket 0\n"
      "update rows of unit 1\n");
  EXPECT_EQ(to_text(forward_program(layout, {})),
            "fetch rows of unit 1\nload, micro-batch 0\nforward block 0, micro-batch 0\n"
            "forward block 1, micro-batch 0\nforward block 2, micro-batch 0\n"
            "score rows of unit 1\n");
}

TEST(Rows, AreProvenUnderEveryStageOfZero) {
  const StepOptions options{.parallelism = {.micro_batches = 3}};
  for (const int stage : {0, 1, 2, 3}) {
    const auto layout =
        with_table({.parallelism = {.zero = stage, .bucket_bytes = 0}, .num_parts = 2});
    const auto step = data_parallel_program(layout, options);
    const std::vector<int> both{0, 1};
    EXPECT_NO_THROW(check({{step, layout, {}, both}, {step, layout, {}, both}}, options));
    const auto forward = forward_program(layout, options);
    EXPECT_NO_THROW(check_forward({{forward, layout, {}, both}, {forward, layout, {}, both}}));
  }
}

/// What check() says of a step without one of its instructions.
std::string without(const Instruction& i) {
  const StepOptions options{.parallelism = {.micro_batches = 2}};
  const auto layout = with_table();
  auto program = data_parallel_program(layout, options);
  EXPECT_EQ(std::erase(program, i), 1) << to_text(i);
  try {
    check(program, layout, options);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Rows, AreMissedByName) {
  EXPECT_THAT(without({.op = Op::FetchRows, .unit = 1}),
              HasSubstr("'forward block 0, micro-batch 0' comes without 'fetch rows of unit 1'"));
  EXPECT_THAT(without({.op = Op::Accumulate, .unit = 1, .micro_batch = 0}),
              HasSubstr("comes without 'accumulate unit 1, micro-batch 0' before it"));
  EXPECT_THAT(
      without({.op = Op::Accumulate, .unit = 1, .micro_batch = 1}),
      HasSubstr("'reduce rows of unit 1' comes without 'accumulate unit 1, micro-batch 1'"));
  EXPECT_THAT(without({.op = Op::ReduceRows, .unit = 1}),
              HasSubstr("'reduce loss' comes without 'reduce rows of unit 1'"));
  EXPECT_THAT(without({.op = Op::UpdateRows, .unit = 1}),
              HasSubstr("ends without 'update rows of unit 1'"));
}

TEST(Rows, MeetOnAllRanks) {
  const auto layout = with_table({.num_parts = 2});
  const auto step = data_parallel_program(layout, {});
  auto late = step;
  std::swap(late.at(0), late.at(1));  // still before anything computes
  const std::vector<int> both{0, 1};
  EXPECT_NO_THROW(check({{step, layout, {}, both}, {late, layout, {}, both}}, {}));
  std::erase(late, Instruction{.op = Op::ReduceRows, .unit = 1});
  EXPECT_THROW(check_matching({{step, layout, {}, both}, {late, layout, {}, both}}), InternalError);
}

TEST(Rows, TakeTheirShareAndWhatAStepReads) {
  const auto layout = with_table({.num_parts = 2});
  const StepOptions options{.parallelism = {.micro_batches = 2}};
  const auto program = data_parallel_program(layout, options);
  constexpr int64_t kStateBytes = 8;
  // 3 of the step, 2 of each of 4 samples.
  EXPECT_EQ(most_rows_read(layout, 1, options), 11);
  EXPECT_EQ(most_rows_read(layout, 1, {}), 7);
  const auto use = memory_of(layout, program, options, 0, {}, kStateBytes).use;
  const int64_t flat = layout.num_elements();
  EXPECT_EQ(use.parameters, 4 * flat + 6 * 4 * 4);
  EXPECT_EQ(use.optimizer, kStateBytes * flat + 6 * (4 * kStateBytes + 4));
  EXPECT_EQ(use.gradients, 4 * flat);
  EXPECT_GE(use.buffers, 11 * 4 * (4 + 2 * 4));
}

/// What a plan says to a table by rows.
std::string refusal(const Mesh& mesh, Parallelism parallelism, bool can = true,
                    const StepFacts& facts = {}) {
  ModelDecl model;
  model.params = {{.name = "table", .shape = {40, 8}}, {.name = "layer", .shape = {8, 8}}};
  if (can) model.params[0].row_reads = RowReads{4, 4};
  model.blocks = {{.name = "in", .params = {0}, .takes_tensor_ranks = true},
                  {.name = "out", .params = {0, 1}, .takes_tensor_ranks = true}};
  parallelism.row_tables = true;
  try {
    plan_run(model, mesh, parallelism, facts);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Rows, AreRefusedWhereTheyDoNotGo) {
  EXPECT_EQ(refusal(Mesh({}, 0, 2), {}), "");
  EXPECT_THAT(refusal(Mesh(), {}, /*can=*/false),
              HasSubstr("row_tables = true needs a table of which a step reads some rows"));
  EXPECT_THAT(refusal(Mesh({.pipeline = 2}, 0, 2), {}),
              HasSubstr("does not go with pipeline_parallel_size = 2"));
  EXPECT_THAT(refusal(Mesh({.tensor = 2}, 0, 2), {}),
              HasSubstr("does not go with tensor_parallel_size = 2"));
  Parallelism offloads;
  offloads.offload.optimizer = Place::Disk;
  EXPECT_THAT(refusal(Mesh(), offloads), HasSubstr("does not go with offload"));
  EXPECT_EQ(refusal(Mesh(), {}, /*can=*/false, {.trains = false}), "");
}

}  // namespace
}  // namespace convoy::parallel
