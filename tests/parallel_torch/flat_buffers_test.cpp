#include "convoy/parallel/buffers/flat_buffers.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <set>

#include "convoy/base/error.h"
#include "convoy/models/gpt2/gpt2.h"
#include "convoy/models/session/session.h"
#include "convoy/nn/declare.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/parallel/buffers/update.h"
#include "convoy/parallel/run/replica.h"
#include "convoy/parallel/run_plan/run_plan.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"

namespace convoy::parallel {
namespace {

models::SessionConfig config() {
  return models::small_session({.ids = 37, .width = 12, .heads = 3, .length = 7});
}

MicroBatch batch() {
  auto ids = at::tensor({1, 2, 3, 4, 5, 0, 0, 0, 7, 8, 9, 10}, at::kLong).view({3, 4});
  return {{{"items", ids}, {"lengths", at::tensor({4, 1, 4}, at::kLong)}},
          at::arange(3, at::kLong)};
}

TEST(FlatBuffers, EveryParameterHasItsOwnAlignedPlace) {
  auto blocks = models::make_session_model(config());
  FlatBuffers flat(blocks, parallel::layout_of(nn::declare(blocks), {}), {});
  flat.bind();
  std::set<std::string> names;
  std::vector<bool> taken(static_cast<size_t>(flat.layout().num_elements()));
  int64_t total = 0;
  for (size_t u = 0; u < flat.units().size(); ++u) {
    const auto& place = flat.layout().units()[u];
    for (const auto& slot : flat.units()[u].slots) {
      const auto& spec = slot.param->spec();
      EXPECT_TRUE(names.insert(spec.name).second) << spec.name << " twice";
      EXPECT_EQ(slot.begin % parallel::kAlignment, 0) << spec.name;
      EXPECT_EQ(slot.length, spec.num_elements());
      EXPECT_EQ(spec.decay, slot.begin < place.decay_end) << spec.name;
      EXPECT_LE(slot.begin + slot.length, place.all.end);
      for (int64_t i = slot.begin; i < slot.begin + slot.length; ++i) {
        EXPECT_FALSE(taken[static_cast<size_t>(i)]) << spec.name;
        taken[static_cast<size_t>(i)] = true;
      }
      total += slot.length;
      EXPECT_EQ(slot.param->value().data_ptr(), flat.value_of(spec.name).data_ptr());
    }
  }
  EXPECT_EQ(total, flat.num_parameters());
}

TEST(FlatBuffers, TiedEmbeddingIsAUnitReadByTwoBlocks) {
  auto blocks = models::make_session_model(config());
  FlatBuffers flat(blocks, parallel::layout_of(nn::declare(blocks), {}), {});
  flat.bind();
  const auto& table = flat.layout().table();
  int readers = 0;
  for (int64_t b = 0; b < table.num_blocks(); ++b) {
    for (int64_t unit : table.units_of_block[static_cast<size_t>(b)]) {
      readers += flat.units()[static_cast<size_t>(unit)].slots[0].param->spec().name ==
                 "embeddings.items.weight";
    }
  }
  EXPECT_EQ(readers, 2);
}

TEST(FlatBuffers, ARankKeepsOfGpt2WhatItsStageSays) {
  // 124 million parameters, on a device that has no memory.
  const auto blocks = models::Gpt2Config().make_blocks();
  for (const bool bf16 : {false, true}) {
    for (const int parts : {2, 4}) {
      const double n = parts;
      const std::array<double, 4> fp32{16, 8 + 8 / n, 4 + 12 / n, 16 / n},
          low{18, 6 + 12 / n, 2 + 16 / n, 18 / n};
      for (const int stage : {0, 1, 2, 3}) {
        const auto layout = parallel::layout_of(
            nn::declare(blocks),
            {.parallelism = {.zero = stage}, .num_parts = parts, .low_precision = bf16});
        const FlatBuffers flat(blocks, layout, {at::kMeta, bf16 ? at::kBFloat16 : at::kFloat});
        size_t bytes = flat.masters().nbytes() + flat.grads().nbytes();
        for (const auto& moment : flat.moments()) bytes += moment.nbytes();
        if (bf16) bytes += flat.compute_weights().nbytes();
        const auto parameters = static_cast<double>(flat.num_parameters());
        EXPECT_NEAR(parameters, 124.4e6, 1e5);
        const double expected = (bf16 ? low : fp32)[static_cast<size_t>(stage)];
        EXPECT_NEAR(static_cast<double>(bytes) / parameters / expected, 1, 0.001)
            << "stage " << stage << " of " << parts << (bf16 ? " in bf16" : "");
      }
    }
  }
}

TEST(FlatBuffers, Bf16KeepsMastersBeside) {
  ReplicaOptions options;
  options.compute_dtype = at::kBFloat16;
  Replica replica(models::make_session_model(config()), comm::Group(), options);
  replica.start();
  auto& flat = replica.flat();
  for (const auto& slot : flat.all_slots()) {
    EXPECT_EQ(slot.param->value().scalar_type(), at::kBFloat16);
    auto master = flat.value_of(slot.param->spec().name);
    EXPECT_EQ(master.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(slot.param->value(), master.to(at::kBFloat16)));
  }
}

TEST(Update, NormCountsOnceWhatTensorRanksShare) {
  const auto blocks = models::make_session_model(config());
  const FlatBuffers whole(blocks, parallel::layout_of(nn::declare(blocks), {}), {});
  const auto elements = static_cast<double>(whole.num_trainable_parameters());
  for (const int tensors : {1, 3}) {
    comm::run_thread_ranks(tensors, [&](const comm::Group& world) {
      const auto own = models::make_session_model(config());
      FlatBuffers flat(
          own, parallel::layout_of(nn::declare(own), {.tensor = {world.rank(), tensors}}), {});
      const auto& layout = flat.layout();
      for (const auto& piece : layout.pieces(0)) {
        parallel::each_row(piece, [&](const parallel::Piece& row) {
          flat.grads(layout.bucket_of(row.unit), {row.place, row.end()}).fill_(1);
        });
      }
      comm::Groups groups;
      groups.world = world;
      Update update(flat, groups, /*may_overflow=*/false);
      const OptimizerOptions optimizer;
      const StepInput input;
      update.begin_step(input, optimizer);
      update.close_totals();
      update.reduce_totals();
      ASSERT_TRUE(update.clip());
      EXPECT_EQ(update.result.grad_norm, static_cast<float>(std::sqrt(elements))) << tensors;
    });
  }
}

TEST(Replica, StepIsTheGradientOfTheMeanLoss) {
  // Against the derivative of the loss along the gradient, by central differences in the weights.
  auto session = config();
  Replica replica(models::make_session_model(session), comm::Group(), ReplicaOptions{});
  replica.start();
  auto before = replica.flat().masters().clone();
  OptimizerOptions still;
  still.max_grad_norm = 0;
  const StepInput input{7, 0, /*learning_rate=*/0.0};
  const auto result = replica.step({batch()}, input, still);
  EXPECT_TRUE(at::equal(replica.flat().masters(), before)) << "a learning rate of 0 moved weights";
  EXPECT_EQ(result.count, 6);
  auto direction = replica.flat().grads().clone();
  direction /= direction.norm();
  auto loss_at = [&](double distance) {
    replica.flat().masters().copy_(before + distance * direction);
    return replica.step({batch()}, input, still).loss();
  };
  const double h = 2e-3;
  const double slope = (loss_at(h) - loss_at(-h)) / (2 * h);
  EXPECT_NEAR(slope / result.grad_norm, 1, 1e-2);  // dropout's masks are the same at every visit
}

TEST(Replica, SkipsNumbersThatAreNotFiniteInFp16AloneWhateverTheScale) {
  for (const auto dtype : {at::kHalf, at::kFloat}) {
    for (const double scale : {0.5, 2.0}) {
      ReplicaOptions options;
      options.compute_dtype = dtype;
      Replica replica(models::make_session_model(config()), comm::Group(), options);
      replica.start();
      replica.flat().masters().fill_(NAN);
      replica.flat().publish_weights();
      const StepInput input{.seed = 7, .learning_rate = 1e-2, .loss_scale = scale};
      if (dtype == at::kHalf) {
        EXPECT_TRUE(replica.step({batch()}, input, {}).skipped) << scale;
      } else {
        EXPECT_THROW(replica.step({batch()}, input, {}), NumericError) << scale;
      }
    }
  }
}

/// Its loss is 0; its gradient 0 times infinity, which processors make a NaN with a sign.
class Edge : public nn::Block {
 public:
  Edge() : Block("edge") { table_ = declare_table("edge.weight", {12, 2}, nn::Init::ones()); }
  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    const auto x = nn::embedding(in.at("items"), table_, /*padding=*/false);
    return {{"loss", (x * 0).sqrt().sum()}, {"count", at::ones({}, at::kLong)}};
  }

 private:
  nn::ParamPtr table_;
};

TEST(Replica, AGradientThatIsNoNumberIsToldWithoutItsSign) {
  Replica replica({std::make_shared<Edge>()}, comm::Group(), ReplicaOptions{});
  replica.start();
  try {
    replica.step({batch()}, {7, 0, 1e-2}, {});
    FAIL();
  } catch (const NumericError& error) {
    EXPECT_NE(std::string(error.what()).find("got a norm of nan;"), std::string::npos)
        << error.what();
  }
}

TEST(Replica, AnEmptyMicroBatchAddsNothing) {
  Replica one(models::make_session_model(config()), comm::Group(), ReplicaOptions{});
  one.start();
  ReplicaOptions two_micro_batches;
  two_micro_batches.parallelism.micro_batches = 2;
  Replica two(models::make_session_model(config()), comm::Group(), two_micro_batches);
  two.start();
  const StepInput input{7, 0, 1e-2};
  const auto a = one.step({batch()}, input, {});
  const auto b = two.step({batch(), MicroBatch()}, input, {});
  EXPECT_EQ(a.loss_sum, b.loss_sum);
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  EXPECT_TRUE(at::equal(one.flat().masters(), two.flat().masters()));
}

std::atomic<int> numbers_read{0}, calls{0};

std::unique_ptr<at::ObserverContext> count_reads(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  ++calls;
  numbers_read += name == "aten::_local_scalar_dense";
  return nullptr;
}

TEST(Replica, AStepReadsNoNumberOfItsDevice) {
  // On a GPU each would wait for all that was started; clip() reads all it needs as one tensor.
  for (const char* body : {"gpt2", "bert"}) {
    auto session = config();
    session.body = body;
    ReplicaOptions options;
    options.parallelism.micro_batches = 2;
    Replica replica(models::make_session_model(session), comm::Group(), options);
    replica.start();
    numbers_read = calls = 0;
    const auto counter = at::addGlobalCallback(
        at::RecordFunctionCallback(count_reads).scopes({at::RecordScope::FUNCTION}));
    const auto result = replica.step({batch(), batch()}, {7, 0, 1e-2}, {});
    at::removeCallback(counter);
    EXPECT_EQ(numbers_read, 0) << body;
    EXPECT_GT(calls, 0);
    EXPECT_GT(result.count, 0);
    EXPECT_GT(result.loss_sum, 0);
  }
}

}  // namespace
}  // namespace convoy::parallel
