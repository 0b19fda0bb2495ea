#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string_view>

#include "convoy/base/error.h"
#include "convoy/nn/module_block.h"
#include "convoy/parallel/run/replica.h"
#include "tests/models/testing.h"
#include "tests/nn/peak_memory.h"

namespace convoy::parallel {
namespace {

nn::BlockList gpt2(int64_t layers = 3) {
  return models::small_gpt2({.layers = layers}).make_blocks();
}

nn::BlockList small_llama() {
  return models::small_llama({.heads = 4}).make_blocks();
}

MicroBatch rows(int64_t rows, int64_t length, int64_t first = 0) {
  auto ids = at::arange(rows * length, at::kLong).view({rows, length}).mul(7).remainder(50);
  return {{{"input_ids", ids + 0}}, at::arange(first, first + rows, at::kLong)};
}

TEST(Recompute, GivesTheSameBitsWithDropout) {
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool is_llama : {false, true}) {
      ReplicaOptions options;
      options.compute_dtype = dtype;
      options.parallelism.micro_batches = 2;
      auto blocks = [&] { return is_llama ? small_llama() : gpt2(); };
      Replica plain(blocks(), comm::Group(), options);
      plain.start();
      options.parallelism.recompute = true;
      Replica again(blocks(), comm::Group(), options);
      again.start();
      EXPECT_GT(again.program().size(), plain.program().size());
      for (int64_t step = 0; step < 5; ++step) {
        const StepInput input{7, step, 1e-2, step};
        const std::vector<MicroBatch> batches{rows(3, 20), rows(3, 20, 3)};
        const auto a = plain.step(batches, input, {}), b = again.step(batches, input, {});
        ASSERT_EQ(a.loss_sum, b.loss_sum);
        ASSERT_EQ(a.grad_norm, b.grad_norm);
      }
      EXPECT_TRUE(at::equal(plain.flat().masters(), again.flat().masters()));
    }
  }
}

std::atomic<int> calls_of_mm{0};

std::unique_ptr<at::ObserverContext> count_calls_of_mm(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  calls_of_mm += name == "aten::mm" || name == "aten::addmm";
  return nullptr;
}

/// Number of products of a step.
int products_of_step(nn::BlockList blocks, bool recompute) {
  ReplicaOptions options;
  options.parallelism.recompute = recompute;
  Replica replica(std::move(blocks), comm::Group(), options);
  replica.start();
  const int before = calls_of_mm;
  const auto counter = at::addGlobalCallback(
      at::RecordFunctionCallback(count_calls_of_mm).scopes({at::RecordScope::FUNCTION}));
  replica.step({rows(3, 20)}, {7, 0, 1e-2}, {});
  at::removeCallback(counter);
  return calls_of_mm - before;
}

// Nobody reads the result of a layer that runs again, so its last product is not computed.
TEST(Recompute, LeavesOutTheLastProductOfALayer) {
  constexpr int kLayers = 3;
  const int of_gpt2 = 4, of_llama = 7;  // products of a layer's forward
  EXPECT_EQ(products_of_step(gpt2(kLayers), true),
            products_of_step(gpt2(kLayers), false) + kLayers * (of_gpt2 - 1));
  const int layers = static_cast<int>(small_llama().size()) - 2;  // beside embeddings and head
  EXPECT_EQ(products_of_step(small_llama(), true),
            products_of_step(small_llama(), false) + layers * (of_llama - 1));
}

TEST(Recompute, NeedsLessMemory) {
  auto peak = [](bool recompute) {
    ReplicaOptions options;
    options.parallelism.recompute = recompute;
    Replica replica(gpt2(12), comm::Group(), options);
    replica.start();
    replica.step({rows(4, 64)}, {7, 0, 1e-2}, {});
    nn::PeakMemory memory;
    replica.step({rows(4, 64)}, {7, 1, 1e-2, 1}, {});
    return memory.peak();
  };
  EXPECT_LT(peak(true) * 3, peak(false));
}

TEST(Recompute, IsRefusedWhereNothingCanBe) {
  struct Net : torch::nn::Module {
    at::Tensor w = register_parameter("w", at::ones({2}));
  };
  auto blocks =
      nn::module_model(std::make_shared<Net>(), [](Net&, const nn::Bundle& in) { return in; });
  ReplicaOptions options;
  options.parallelism.recompute = true;
  EXPECT_THROW(Replica(blocks, comm::Group(), options), UsageError);
}

}  // namespace
}  // namespace convoy::parallel
