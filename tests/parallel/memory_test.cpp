#include "convoy/parallel/program/memory.h"

#include <gtest/gtest.h>

// What is held between the blocks of a stage, and in its messages.
namespace convoy::parallel {
namespace {

/// The first of two stages, of a block each.
Layout first_stage() {
  return {{{{0}, {1}}, {}}, {{{{32}}}, {{{32}}}}, {.stages = {{0}, {1}}, .pipeline_stage = 0}};
}

int64_t activations(const Program& program, const BlockCost& cost, int64_t micro_batches) {
  const StepOptions options{.parallelism = {.micro_batches = micro_batches}};
  return memory_of(first_stage(), program, options, 0, {cost, cost}, 8).use.activations;
}

Instruction of(Op op, int64_t micro_batch) {
  const bool moves = op == Op::Send || op == Op::ReceiveGrad;
  return {.op = op, .block = 0, .micro_batch = micro_batch, .peer = moves ? 1 : -1};
}

// Several tensors are packed into one.
constexpr BlockCost kPacked{.kept_bytes = 500,
                            .returned_bytes = 100,
                            .backward_bytes = 30,
                            .sent_bytes = 100,
                            .grad_bytes = 70,
                            .sent_parts = 2,
                            .grad_parts = 1};

TEST(Memory, AMessageIsThereUntilItsGradientHasCome) {
  const Program program{of(Op::Forward, 0), of(Op::Send, 0), of(Op::ReceiveGrad, 0),
                        of(Op::Backward, 0)};
  EXPECT_EQ(activations(program, kPacked, 1), 500 + 100 + 70);
  auto cost = kPacked;
  cost.backward_bytes = 300;
  EXPECT_EQ(activations(program, cost, 1), 500 + 300);
}

TEST(Memory, MessagesWithoutAnAnswerMayBeUnderWay) {
  Program program;
  for (int64_t m = 0; m < 4; ++m) {
    program.push_back(of(Op::Forward, m));
    program.push_back(of(Op::Send, m));
  }
  // The last and, as the stage has one virtual stage, the one before it.
  EXPECT_EQ(activations(program, kPacked, 4), 4 * 500 + 100 + 2 * 100);
  // All that was sent before the one that is answered has arrived, too.
  program.push_back(of(Op::ReceiveGrad, 3));
  program.push_back({.op = Op::Recompute, .block = 0, .micro_batch = 3});
  auto cost = kPacked;
  cost.forward_bytes = 700;
  EXPECT_EQ(activations(program, cost, 4), 4 * 500 + 70 + 700);
}

}  // namespace
}  // namespace convoy::parallel
