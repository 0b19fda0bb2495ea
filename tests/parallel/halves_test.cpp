#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "tests/parallel/pipes.h"

// Backwards in two halves, and what the checker makes of every change to such programs.
namespace convoy::parallel {
namespace {

using testing::HasSubstr;
using enum ActionKind;

/// Two ranks with a virtual stage of two blocks each, one micro-batch after the other in halves.
PipelineStep two_ranks(const StepOptions& options = {.parallelism = {.micro_batches = 2}},
                       const LayoutOptions& layout = {.parallelism = {.bucket_bytes = 0}}) {
  const auto pipe = loop_pipe(2, 1, options.parallelism.micro_batches);
  return {cut_for(pipe, 2), kZeroBubble.orders(pipe), options, layout};
}

TEST(Halves, GradientIsSentAfterTheFirstAndAddedAfterTheSecond) {
  EXPECT_THAT(to_text(two_ranks().programs[1]),
              HasSubstr("backward input of block 3, micro-batch 0\n"
                        "backward input of block 2, micro-batch 0\n"
                        "send gradient of block 1, micro-batch 0, to rank 0\n"
                        "load, micro-batch 1\nreceive block 1, micro-batch 1, from rank 0\n"));
  EXPECT_THAT(to_text(two_ranks().programs[1]),
              HasSubstr("backward weight of block 3, micro-batch 1\n"
                        "accumulate unit 3, micro-batch 1\nreduce bucket 0\n"
                        "backward weight of block 2, micro-batch 1\n"
                        "accumulate unit 2, micro-batch 1\nreduce bucket 1\n"));
}

TEST(Halves, AreOneBackwardWhereNobodyWaits) {
  const auto text = to_text(two_ranks().programs[0]);
  EXPECT_THAT(text, HasSubstr("backward block 1, micro-batch 0\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("backward input")));
}

TEST(Halves, SecondReadsNoWeights) {
  const auto step = two_ranks({.parallelism = {.micro_batches = 2}},
                              {.parallelism = {.zero = 3, .bucket_bytes = 0}, .num_parts = 2});
  step.check();
  const auto& layout = step.layouts[1];
  EXPECT_TRUE(reads({.op = Op::BackwardWeight, .block = 3, .micro_batch = 0}, layout).empty());
  EXPECT_EQ(reads({.op = Op::BackwardInput, .block = 3, .micro_batch = 0}, layout),
            layout.buckets_of_backward(3));
}

TEST(Halves, CountDeferredWeightGradients) {
  const auto alive = two_ranks({.parallelism = {.micro_batches = 4}}).check();
  EXPECT_EQ(alive[0], (Alive{.blocks = 4}));
  EXPECT_EQ(alive[1], (Alive{.blocks = 2, .put_off = 4}));
}

TEST(Halves, AreRefusedBesideAWholeBackwardOrInTheWrongOrder) {
  const auto step = two_ranks();
  auto program = step.programs[1];
  const auto half = [&](Op op, int64_t block) {
    return std::find(program.begin(), program.end(),
                     Instruction{.op = op, .block = block, .micro_batch = 0});
  };
  half(Op::BackwardInput, 3)->op = Op::Backward;
  EXPECT_THAT(step.refusal(1, program),
              HasSubstr("rank 1: 'backward block 3, micro-batch 0' comes beside its halves"));
  program = step.programs[1];
  std::rotate(half(Op::BackwardInput, 3), half(Op::BackwardWeight, 3),
              half(Op::BackwardWeight, 3) + 1);
  EXPECT_THAT(step.refusal(1, program),
              HasSubstr("'backward weight of block 3, micro-batch 0' comes without 'backward input "
                        "of block 3, micro-batch 0' before it"));
}

TEST(Halves, MessagesAreReceivedInTheOrderSent) {
  // Rank 1 wants the gradient before the input that was sent first.
  const auto pipe = loop_pipe(2, 2, 2);
  const Orders orders{{{0, Forward, 0},
                       {2, Forward, 0},
                       {0, Forward, 1},
                       {2, Backward, 0},
                       {2, Forward, 1},
                       {0, Backward, 0},
                       {2, Backward, 1},
                       {0, Backward, 1}},
                      {{1, Forward, 0},
                       {3, Forward, 0},
                       {3, Backward, 0},
                       {1, Backward, 0},
                       {1, Forward, 1},
                       {3, Forward, 1},
                       {3, Backward, 1},
                       {1, Backward, 1}}};
  const PipelineStep step(cut_for(pipe, 1), orders, {.parallelism = {.micro_batches = 2}});
  EXPECT_NO_THROW(step.check());
  EXPECT_THAT(to_text(step.programs[1]),
              HasSubstr("load, micro-batch 1\nreceive block 0, micro-batch 1, from rank 0\n"
                        "receive gradient of block 1, micro-batch 0, from rank 0\n"
                        "backward block 1, micro-batch 0\n"));
}

/// What an instruction reads and writes, by name: two of which neither writes what the other one
/// touches may change places. (No other rank shares these ranks' samples.)
class Touched {
 public:
  Touched(const Instruction& i, const PipelineStep& step, size_t rank)
      : layout_(step.layouts[rank]) {
    note(i);
  }

  bool conflicts(const Touched& other) const {
    const auto meet = [](const auto& a, const auto& b) {
      return std::any_of(a.begin(), a.end(), [&](const auto& each) { return b.contains(each); });
    };
    return meet(writes_, other.writes_) || meet(writes_, other.reads_) ||
           meet(reads_, other.writes_);
  }

 private:
  void note(const Instruction& i) {
    const auto of = [](const char* what, int64_t a, int64_t b = 0) {
      return fmt::format("{} {} {}", what, a, b);
    };
    const int64_t b = i.block, m = i.micro_batch;
    for (const int64_t bucket : reads(i, layout_)) read(of("weights", bucket));
    switch (i.op) {
      case Op::Load:
        return write(of("batch", m));
      case Op::Forward:
      case Op::Recompute:
        read(of("batch", m));
        read(of("output", b - 1, m));
        if (i.op == Op::Recompute) read(of("gradient", b, m));
        return write(of(i.op == Op::Forward ? "output" : "again", b, m));
      case Op::Loss:
        read(of("output", b, m));
        return write("totals");
      case Op::Backward:
      case Op::BackwardInput:
        read(of("output", b, m));
        read(of("again", b, m));
        read(of("gradient", b, m));
        write(of("gradient", b - 1, m));
        write(of("half", b, m));
        units(b, m, "first");
        if (i.op == Op::Backward) units(b, m, "second");
        return;
      case Op::BackwardWeight:
        read(of("half", b, m));
        return units(b, m, "second");
      case Op::Send:
        read(of("output", b, m));
        return write(of("to", i.peer));
      case Op::SendGrad:
        read(of("gradient", b, m));
        return write(of("to", i.peer));
      case Op::Receive:
        read(of("batch", m));
        write(of("output", b, m));
        return write(of("from", i.peer));
      case Op::ReceiveGrad:
        write(of("gradient", b, m));
        return write(of("from", i.peer));
      case Op::Accumulate:
        read(of("first", i.unit, m));
        read(of("second", i.unit, m));
        return write(of("sum", layout_.bucket_of(i.unit)));
      case Op::Reduce:
      case Op::ReduceScatter:
        return write(of("sum", i.bucket));
      case Op::ReduceTied:
        write("order of sums over stages");
        return write(of("sum", layout_.bucket_of(i.unit)));
      case Op::ReduceLoss:
        write("totals");
        for (int64_t k = 0; k < layout_.num_buckets(); ++k) read(of("sum", k));
        return write("norm");
      case Op::Clip:
        return write("norm");
      case Op::Update:
        read("norm");
        return write(of("weights", i.bucket));
      default:
        return write(of("weights", i.bucket));
    }
  }

  void read(const std::string& what) { reads_.insert(what); }
  void write(const std::string& what) { writes_.insert(what); }
  void units(int64_t block, int64_t m, const char* half) {
    for (const int64_t unit : layout_.table().units_of_block[static_cast<size_t>(block)]) {
      write(fmt::format("{} {} {}", half, unit, m));
    }
  }

  const Layout& layout_;
  std::set<std::string> reads_, writes_;
};

/// Steps of all kinds of instructions.
std::vector<PipelineStep> steps() {
  std::vector<PipelineStep> out;
  const StepOptions options{.parallelism = {.micro_batches = 3}};
  const StepOptions again{.parallelism = {.micro_batches = 3}, .recomputed = {0, 1, 4}};
  const auto v = v_pipe(3, 3), loop = loop_pipe(2, 2, 3), once = loop_pipe(3, 1, 3);
  out.emplace_back(cut_for(v, 1), kZeroBubble.orders(v), options);
  out.emplace_back(cut_for(v, 1), kZeroBubble.orders(v), again,
                   LayoutOptions{.parallelism = {.bucket_bytes = 0}}, true);
  out.emplace_back(cut_for(loop, 2), kZeroBubble.orders(loop), again);
  out.emplace_back(cut_for(loop, 1), kInterleaved.orders(loop), options,
                   LayoutOptions{.parallelism = {.bucket_bytes = 0}}, true);
  out.emplace_back(cut_for(once, 2), kZeroBubble.orders(once), again,
                   LayoutOptions{.parallelism = {.zero = 3, .bucket_bytes = 0}, .num_parts = 2},
                   true);
  out.emplace_back(cut_for(once, 2), kOneFOneB.orders(once), again,
                   LayoutOptions{.parallelism = {.zero = 2, .bucket_bytes = 0}, .num_parts = 2});
  out.emplace_back(cut_for(once, 1), kGPipe.orders(once), options,
                   LayoutOptions{.parallelism = {.bucket_bytes = 0}});
  out.emplace_back(cut_for(once, 1), kNaive.orders(once), again,
                   LayoutOptions{.parallelism = {.bucket_bytes = 0}}, true);
  out.emplace_back(cut_for(loop, 1), kAutomatic.orders(loop), options,
                   LayoutOptions{.parallelism = {.bucket_bytes = 0}});
  return out;
}

template <class Look>
void each_instruction(const Look& look) {
  for (const auto& step : steps()) {
    EXPECT_NO_THROW(step.check());
    for (size_t r = 0; r < step.programs.size(); ++r) {
      for (size_t i = 0; i < step.programs[r].size(); ++i) {
        look(step, r, step.programs[r], i);
      }
    }
  }
}

TEST(Halves, EveryInstructionThatIsMissingOrTwiceThereIsNamed) {
  each_instruction([](const PipelineStep& step, size_t r, const Program& program, size_t i) {
    const auto name = fmt::format("'{}'", to_text(program[i]));
    auto broken = program;
    broken.insert(broken.begin() + static_cast<std::ptrdiff_t>(i), program[i]);
    EXPECT_THAT(step.refusal(r, broken), HasSubstr(name)) << "twice";
    broken = program;
    broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THAT(step.refusal(r, broken), HasSubstr(name)) << "missing";
  });
}

TEST(Halves, NeighboursThatChangePlacesAreRefusedUnlessItIsTheSame) {
  int refused = 0, taken = 0;
  each_instruction([&](const PipelineStep& step, size_t r, const Program& program, size_t i) {
    if (i + 1 == program.size()) return;
    auto swapped = program;
    std::swap(swapped[i], swapped[i + 1]);
    const auto refusal = step.refusal(r, swapped);
    if (refusal != "accepted") {
      ++refused;
      const bool named = refusal.find(to_text(program[i])) != std::string::npos ||
                         refusal.find(to_text(program[i + 1])) != std::string::npos;
      EXPECT_TRUE(named) << refusal;
      return;
    }
    ++taken;
    EXPECT_FALSE(Touched(program[i], step, r).conflicts(Touched(program[i + 1], step, r)))
        << to_text(program[i]) << " and " << to_text(program[i + 1]);
  });
  EXPECT_GT(refused, 100);
  EXPECT_GT(taken, 10);
}

}  // namespace
}  // namespace convoy::parallel
