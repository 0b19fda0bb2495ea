#include "convoy/schedule/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/schedule/testing.h"

// Programs of several ranks.
namespace convoy::schedule {
namespace {

using testing::HasSubstr;

const StepOptions kTwo{.num_micro_batches = 2};

/// Of two ranks that hold two of four blocks each, a unit and a bucket per block.
struct Stages {
  explicit Stages(LayoutOptions options = {}) {
    options.bucket_bytes = 0;
    for (const int64_t first : {0, 2}) {
      options.blocks = {first, first + 1};
      layouts.push_back(Layout({{{0}, {1}, {2}, {3}}, {}}, {{{32}}, {{64}}, {{32}}, {{64}}},
                               options));
    }
  }
  std::vector<Alive> check(const std::vector<Program>& programs,
                           const StepOptions& options = kTwo) const {
    return schedule::check({{programs[0], layouts[0], {0, 1}}, {programs[1], layouts[1], {0, 1}}},
                           options);
  }
  std::string refusal(const std::vector<Program>& programs,
                      const StepOptions& options = kTwo) const {
    try {
      check(programs, options);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "accepted";
  }

  std::vector<Layout> layouts;
};

Instruction load(int64_t m) {
  return {.op = Op::Load, .micro_batch = m};
}
Instruction loss(int64_t m) {
  return {.op = Op::Loss, .micro_batch = m};
}
Instruction at(Op op, int64_t block, int64_t m) {
  return {.op = op, .block = block, .micro_batch = m};
}
Instruction over(Op op, int64_t m) {  // the border between the stages
  return {.op = op, .block = 1, .micro_batch = m,
          .peer = op == Op::Send || op == Op::ReceiveGrad ? 1 : 0};
}
Program joined(std::initializer_list<Program> parts) {
  Program out;
  for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}
Program forward(int64_t first, int64_t m) {
  return {at(Op::Forward, first, m), at(Op::Forward, first + 1, m)};
}
Program backward(int64_t first, int64_t m) {
  return {at(Op::Backward, first + 1, m),
          {.op = Op::Accumulate, .unit = first + 1, .micro_batch = m},
          at(Op::Backward, first, m),
          {.op = Op::Accumulate, .unit = first, .micro_batch = m}};
}
Program end() {
  return {{.op = Op::Reduce, .bucket = 0}, {.op = Op::Reduce, .bucket = 1}, {Op::ReduceLoss},
          {Op::Clip}, {.op = Op::Update, .bucket = 1}, {.op = Op::Update, .bucket = 0}};
}

/// All forwards, then all backwards.
std::vector<Program> all_forwards_first() {
  return {joined({{load(0)}, forward(0, 0), {over(Op::Send, 0)}, {load(1)}, forward(0, 1),
                  {over(Op::Send, 1)}, {over(Op::ReceiveGrad, 0)}, backward(0, 0),
                  {over(Op::ReceiveGrad, 1)}, backward(0, 1), end()}),
          joined({{load(0), over(Op::Receive, 0)}, forward(2, 0), {loss(0), load(1)},
                  {over(Op::Receive, 1)}, forward(2, 1), {loss(1)}, backward(2, 0),
                  {over(Op::SendGrad, 0)}, backward(2, 1), {over(Op::SendGrad, 1)}, end()})};
}

Instruction joined(Instruction i) {
  i.with_next = true;
  return i;
}

/// One forward, one backward; what crosses is exchanged.
std::vector<Program> one_forward_one_backward() {
  return {joined({{load(0)}, forward(0, 0), {over(Op::Send, 0)}, {load(1)}, forward(0, 1),
                  {joined(over(Op::Send, 1)), over(Op::ReceiveGrad, 0)}, backward(0, 0),
                  {over(Op::ReceiveGrad, 1)}, backward(0, 1), end()}),
          joined({{load(0), over(Op::Receive, 0)}, forward(2, 0), {loss(0)}, backward(2, 0),
                  {joined(over(Op::SendGrad, 0)), over(Op::Receive, 1)}, {load(1)}, forward(2, 1),
                  {loss(1)}, backward(2, 1), {over(Op::SendGrad, 1)}, end()})};
}

TEST(Check, AStageHasPlacesForItsOwnBlocksOnly) {
  const Stages stages;
  const auto& second = stages.layouts[1];
  EXPECT_TRUE(second.holds(2) && !second.holds(1));
  EXPECT_TRUE(second.holds_unit(2) && !second.holds_unit(1));
  EXPECT_EQ(second.num_elements(), 96);
  EXPECT_EQ(second.pieces(0).size(), 2U);
  EXPECT_EQ(second.table().last_reader_in_backward(0), -1);
}

TEST(Check, AcceptsTwoStagesAndSaysWhatIsAlive) {
  const Stages stages;
  const auto gpipe = stages.check(all_forwards_first());
  EXPECT_EQ(gpipe, (std::vector<Alive>{{.blocks = 4}, {.blocks = 4}}));
  const auto alternating = stages.check(one_forward_one_backward());
  EXPECT_EQ(alternating, (std::vector<Alive>{{.blocks = 4}, {.blocks = 2}}));
}

TEST(Check, NamesTheRankAndEveryInstructionThatIsMissingOrTwiceThere) {
  const Stages stages;
  for (const auto& programs : {all_forwards_first(), one_forward_one_backward()}) {
    for (size_t rank = 0; rank < 2; ++rank) {
      for (size_t i = 0; i < programs[rank].size(); ++i) {
        const auto name = fmt::format("'{}'", to_text(programs[rank][i]));
        auto broken = programs;
        const auto place = broken[rank].begin() + static_cast<std::ptrdiff_t>(i);
        broken[rank].insert(place, programs[rank][i]);
        EXPECT_THAT(stages.refusal(broken), HasSubstr(name));
        EXPECT_THAT(stages.refusal(broken), HasSubstr(fmt::format("rank {}", rank)));
        broken = programs;
        broken[rank].erase(broken[rank].begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_THAT(stages.refusal(broken), HasSubstr(name));
        EXPECT_THAT(stages.refusal(broken), HasSubstr(fmt::format("rank {}", rank)));
      }
    }
  }
}

TEST(Check, RefusesAnOrderInWhichOneQueueWouldStandStill) {
  const Stages stages;
  auto programs = one_forward_one_backward();
  auto& first = *std::find_if(programs[0].begin(), programs[0].end(),
                              [](const Instruction& i) { return i.with_next; });
  first.with_next = false;
  EXPECT_THAT(stages.refusal(programs), HasSubstr("rank 0: 'receive gradient of block 1, "));
  for (auto& i : programs[1]) i.with_next = false;
  EXPECT_THAT(stages.refusal(programs),
              HasSubstr("rank 0: 'receive gradient of block 1, micro-batch 0, from rank 1' waits "
                        "for rank 1, whose 'receive block 1, micro-batch 1, from rank 0' waits "
                        "for rank 0"));
}

TEST(Check, RefusesSendsAndReceivesOfDifferentOrder) {
  const Stages stages;
  auto programs = all_forwards_first();
  auto& receiver = programs[1];
  std::swap(*std::find(receiver.begin(), receiver.end(), over(Op::Receive, 0)),
            *std::find(receiver.begin(), receiver.end(), over(Op::Receive, 1)));
  // Both are there before the first forward, in the wrong order.
  const auto late = std::find(receiver.begin(), receiver.end(), over(Op::Receive, 0));
  std::rotate(receiver.begin() + 2, late, late + 1);
  EXPECT_THAT(stages.refusal(programs),
              HasSubstr("rank 1: 'receive block 1, micro-batch 1, from rank 0' meets 'send block "
                        "1, micro-batch 0, to rank 1' of rank 0"));
}

TEST(Check, RefusesRanksThatWaitInACircle) {
  const Stages stages;
  auto programs = all_forwards_first();
  auto& first = programs[0];
  // Rank 1 wants micro-batch 1 before it sends a gradient, and rank 0 the gradient before that.
  const auto gradient = std::find(first.begin(), first.end(), over(Op::ReceiveGrad, 0));
  const auto send = std::find(first.begin(), first.end(), over(Op::Send, 1));
  std::rotate(send - 3, gradient, gradient + 1);
  EXPECT_THAT(stages.refusal(programs),
              HasSubstr("rank 0: 'receive gradient of block 1, micro-batch 0, from rank 1' waits "
                        "for rank 1, whose 'receive block 1, micro-batch 1, from rank 0' waits for "
                        "rank 0"));
}

TEST(Check, RefusesWrongPeersAndBlocksOfOthers) {
  const Stages stages;
  auto programs = all_forwards_first();
  auto broken = programs;
  broken[0][1].block = 2;
  EXPECT_THAT(stages.refusal(broken), HasSubstr("rank 0: 'forward block 2, micro-batch 0' names a "
                                                "block that is not here"));
  broken = programs;
  broken[0][3].peer = 0;
  EXPECT_THAT(stages.refusal(broken), HasSubstr("names a peer that does not hold the block"));
  broken = programs;
  broken[0][3].block = 0;
  EXPECT_THAT(stages.refusal(broken), HasSubstr("is not at a border of this rank"));
  broken = programs;
  broken[1].front().micro_batch = 2;
  EXPECT_THAT(stages.refusal(broken), HasSubstr("names a micro-batch that there is not"));
}

TEST(Check, CollectivesOfAGroupComeInOneOrder) {
  const auto layout = tied_layout({.stage = 3, .num_parts = 2, .bucket_bytes = 0});
  const auto program = data_parallel_program(layout, {});
  const auto refusal = [&](const Program& other) -> std::string {
    try {
      check({{program, layout, {0}, {0, 1}}, {other, layout, {1}, {0, 1}}}, {});
    } catch (const InternalError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(program), "accepted");
  auto swapped = program;
  const auto gathers = [](const Instruction& i) { return i.op == Op::Gather; };
  const auto one = std::find_if(swapped.begin(), swapped.end(), gathers);
  const auto two = std::find_if(one + 1, swapped.end(), gathers);
  std::swap(*one, *two);
  EXPECT_THAT(refusal(swapped), HasSubstr("rank 1: 'gather bucket 3' is the collective that meets "
                                          "'gather bucket 2' of rank 0"));
}

TEST(Check, WhatIsRecomputedKeepsItsInputOnly) {
  const Stages stages;
  auto programs = all_forwards_first();
  for (auto& program : programs) {
    for (size_t i = 0; i < program.size(); ++i) {
      if (program[i].op != Op::Backward || program[i].block == 3) continue;
      auto again = program[i];
      again.op = Op::Recompute;
      program.insert(program.begin() + static_cast<std::ptrdiff_t>(i++), again);
    }
  }
  const StepOptions options{.num_micro_batches = 2, .recomputed = {0, 1, 2}};
  EXPECT_EQ(stages.check(programs, options),
            (std::vector<Alive>{{.blocks = 1, .inputs = 4}, {.blocks = 2, .inputs = 2}}));
}

}  // namespace
}  // namespace convoy::schedule
