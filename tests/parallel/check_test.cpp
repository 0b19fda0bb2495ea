#include "convoy/parallel/program/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "tests/parallel/testing.h"

// Programs of several ranks.
namespace convoy::parallel {
namespace {

using testing::HasSubstr;

const StepOptions kTwo{.parallelism = {.micro_batches = 2}};

/// Of two ranks that hold two of four blocks each, a unit and a bucket per block.
struct TwoStages {
  explicit TwoStages(LayoutOptions options = {}) {
    options.parallelism.bucket_bytes = 0;
    options.stages = {{0, 1}, {2, 3}};
    for (const int stage : {0, 1}) {
      options.pipeline_stage = stage;
      layouts.push_back(
          Layout({{{0}, {1}, {2}, {3}}, {}}, {{{{32}}}, {{{64}}}, {{{32}}}, {{{64}}}}, options));
    }
  }
  /// On the last stage, too, where no schedule does so.
  std::vector<Program> all_forwards_first(const StepOptions& options = kTwo) const {
    std::vector<Program> out;
    for (const auto& layout : layouts) {
      std::vector<BlockAction> actions;
      for (const auto kind : {ActionKind::Forward, ActionKind::Backward}) {
        for (int64_t m = 0; m < options.parallelism.micro_batches; ++m) {
          for (const auto& [begin, end] : layout.virtual_stages()) {
            actions.push_back({kind, begin, end, m});
          }
        }
      }
      out.push_back(step_program(layout, options, actions));
    }
    return out;
  }
  std::vector<Program> one_forward_one_backward() const {
    return pipeline_programs(&kOneFOneB, layouts, kTwo);
  }
  std::vector<Alive> check(const std::vector<Program>& programs,
                           const StepOptions& options = kTwo) const {
    return parallel::check({{programs[0], layouts[0], {0, 1}}, {programs[1], layouts[1], {0, 1}}},
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

/// The border between the stages.
Instruction over(Op op, int64_t m) {
  const bool to_second = op == Op::Send || op == Op::ReceiveGrad;
  return {.op = op, .block = 1, .micro_batch = m, .peer = to_second ? 1 : 0};
}

TEST(Check, AStageHasPlacesForItsOwnBlocksOnly) {
  const TwoStages stages;
  const auto& second = stages.layouts[1];
  EXPECT_TRUE(second.holds(2) && !second.holds(1));
  EXPECT_TRUE(second.holds_unit(2) && !second.holds_unit(1));
  EXPECT_EQ(second.num_elements(), 96);
  EXPECT_EQ(second.pieces(0).size(), 2U);
  EXPECT_EQ(second.table().last_reader_in_backward(0), -1);
}

TEST(Check, AcceptsTwoStagesAndSaysWhatIsAlive) {
  const TwoStages stages;
  const auto gpipe = stages.check(stages.all_forwards_first());
  EXPECT_EQ(gpipe, (std::vector<Alive>{{.blocks = 4}, {.blocks = 4}}));
  const auto alternating = stages.check(stages.one_forward_one_backward());
  EXPECT_EQ(alternating, (std::vector<Alive>{{.blocks = 4}, {.blocks = 2}}));
}

TEST(Check, NamesTheRankAndEveryInstructionThatIsMissingOrTwiceThere) {
  const TwoStages stages;
  for (const auto& programs : {stages.all_forwards_first(), stages.one_forward_one_backward()}) {
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

TEST(Check, RefusesSendsAndReceivesOfDifferentOrder) {
  const TwoStages stages;
  auto programs = stages.all_forwards_first();
  auto& receiver = programs[1];
  // Both are there before the first forward, in the wrong order.
  const auto late = std::find(receiver.begin(), receiver.end(), over(Op::Receive, 1));
  std::rotate(receiver.begin() + 1, late - 1, late + 1);
  EXPECT_THAT(stages.refusal(programs),
              HasSubstr("rank 1: 'receive block 1, micro-batch 1, from rank 0' meets 'send block "
                        "1, micro-batch 0, to rank 1' of rank 0"));
}

TEST(Check, RefusesRanksThatWaitInACircle) {
  const TwoStages stages;
  auto programs = stages.all_forwards_first();
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
  const TwoStages stages;
  auto programs = stages.all_forwards_first();
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

TEST(Check, TiedGradientsAreSummedOverTheirStages) {
  const LayoutOptions options{.parallelism = {.bucket_bytes = 0}, .stages = {{0, 1}, {2}}};
  const auto first = tied_layout(options), second = first.of_stage(1);
  EXPECT_TRUE(first.is_tied(1) && second.is_tied(1) && !first.is_tied(0));
  const auto programs = pipeline_programs(&kGPipe, {first, second}, kTwo);
  const auto refusal = [&](const Program& of_second) -> std::string {
    try {
      check({{programs[0], first, {0, 1}}, {of_second, second, {0, 1}}}, kTwo);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(programs[1]), "accepted");
  const Instruction tied{.op = Op::ReduceTied, .unit = 1};
  auto broken = programs[1];
  std::erase(broken, tied);
  EXPECT_THAT(refusal(broken), HasSubstr("rank 1: 'reduce loss' comes without 'reduce tied unit 1' "
                                         "before it"));
  broken.insert(broken.begin() + 2, tied);
  EXPECT_THAT(refusal(broken), HasSubstr("'reduce tied unit 1' comes without 'reduce bucket"));
  broken = programs[1];
  std::find(broken.begin(), broken.end(), tied)->unit = 3;
  EXPECT_THAT(refusal(broken), HasSubstr("names a unit that no other stage holds"));
}

TEST(Check, CollectivesOfAGroupComeInOneOrder) {
  const auto layout = tied_layout({.parallelism = {.zero = 3, .bucket_bytes = 0}, .num_parts = 2});
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

/// Of two ranks that share out 5 rows of a matrix unevenly, and tokens; biases are whole.
Layout tensor_layout(int rank, LayoutOptions options = {}) {
  options.tensor = {rank, 2};
  options.parallelism.sequence_parallel = true;
  const TensorCut rows{.dim = 0};
  return Layout({{{0}, {1}, {2}}, {}},
                {{{{5, 64}, true, rows}, {{40}, false}},
                 {{{5, 64}, true, rows}},
                 {{{5, 64}, true, rows}, {{8}, false}, {{9}, false}}},
                options);
}

TEST(Check, PartsAreSummedOverTensorRanksBeforeTheirBucketIsReduced) {
  // Between what the units of the two ranks take: their buckets differ.
  const LayoutOptions options{.parallelism = {.bucket_bytes = 900}};
  const std::vector<Layout> layouts{tensor_layout(0, options), tensor_layout(1, options)};
  EXPECT_NE(layouts[0].bucket_of(1), layouts[1].bucket_of(1));
  EXPECT_TRUE(layouts[0].sums_over_tensor(0) && layouts[0].sums_over_tensor(2));
  EXPECT_FALSE(layouts[0].sums_over_tensor(1)) << "nothing of it is whole";
  EXPECT_EQ(layouts[0].summed_over_tensor(2).size(), 2u);
  auto alone = options;
  alone.tensor = {0, 2};
  EXPECT_FALSE(tied_layout(alone).sums_over_tensor(0)) << "tokens are not shared out";

  const std::vector<Program> programs{data_parallel_program(layouts[0], kTwo),
                                      data_parallel_program(layouts[1], kTwo)};
  const auto refusal = [&](const Program& of_second) -> std::string {
    try {
      check({{programs[0], layouts[0], {0}, {}, {0, 1}}, {of_second, layouts[1], {1}, {}, {0, 1}}},
            kTwo);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(programs[1]), "accepted");
  const Instruction first{.op = Op::ReduceTensor, .unit = 2, .micro_batch = 1};
  const Instruction second{.op = Op::ReduceTensor, .unit = 0, .micro_batch = 1};
  auto broken = programs[1];
  EXPECT_EQ(std::erase(broken, first), 1u);
  EXPECT_THAT(
      refusal(broken),
      HasSubstr("comes without 'reduce unit 2 over tensor ranks, micro-batch 1' before it"));
  broken = programs[1];
  std::find(broken.begin(), broken.end(), first)->micro_batch = 0;
  EXPECT_THAT(refusal(broken), HasSubstr("comes before the last micro-batch"));
  broken = programs[1];
  std::find(broken.begin(), broken.end(), first)->unit = 1;
  EXPECT_THAT(refusal(broken), HasSubstr("not in parts"));
  // What one rank sums first is another thing on the other.
  broken = programs[1];
  const auto reduces = [](const Instruction& i) { return i.op == Op::Reduce; };
  std::erase_if(broken, [&](const Instruction& i) { return i == first || reduces(i); });
  auto at = std::find(broken.begin(), broken.end(), second) + 1;
  at = broken.insert(at, first) + 1;
  for (int64_t b = layouts[1].num_buckets() - 1; b >= 0; --b) {
    at = broken.insert(at, {.op = Op::Reduce, .bucket = b});
  }
  EXPECT_THAT(refusal(broken), HasSubstr("is the collective that meets"));
}

TEST(Check, RecomputedBlocksKeepOnlyTheirInput) {
  const TwoStages stages;
  const StepOptions options{.parallelism = {.micro_batches = 2}, .recomputed = {0, 1, 2}};
  EXPECT_EQ(stages.check(stages.all_forwards_first(options), options),
            (std::vector<Alive>{{.blocks = 1, .inputs = 4}, {.blocks = 2, .inputs = 2}}));
}

}  // namespace
}  // namespace convoy::parallel
