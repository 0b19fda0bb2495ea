#include "convoy/parallel/run/pass.h"
#include "convoy/nn/declare.h"
#include "convoy/parallel/run_plan/run_plan.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string_view>

namespace convoy::parallel {
namespace {

std::atomic<int> uploads{0};

std::unique_ptr<at::ObserverContext> count_uploads(const at::RecordFunction& call) {
  uploads += std::string_view(call.name()) == "aten::_to_copy";
  return nullptr;
}

/// Remembers what it was given, without keeping it.
class Watching : public nn::Block {
 public:
  Watching() : Block("watching") {}
  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    EXPECT_TRUE(in.at("x").is_meta());
    EXPECT_TRUE(context.loaded->at("x").is_cpu());
    given_.emplace_back(in.at("x").getIntrusivePtr());
    auto out = in;
    out["loss"] = out["count"] = in.at("x").sum();
    return out;
  }
  bool alive() const { return !given_.back().expired(); }

 private:
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> given_;
};

TEST(Pass, AMicroBatchIsOnTheDeviceFromItsLoadToItsLastBackward) {
  const at::Device device = at::kMeta;
  const auto first = std::make_shared<Watching>(), second = std::make_shared<Watching>();
  const nn::BlockList blocks{first, second};
  FlatBuffers flat(blocks, parallel::layout_of(nn::declare(blocks), {}), {.device = device});
  Gradients gradients(flat, comm::Groups(comm::Group()), true);
  const auto program =
      parallel::data_parallel_program(flat.layout(), {.parallelism = {.micro_batches = 2}});
  const std::vector<MicroBatch> batches(2, {{{"x", at::ones({3, 4})}}, at::arange(3)});
  const StepInput step;
  uploads = 0;
  const auto counter = at::addGlobalCallback(
      at::RecordFunctionCallback(count_uploads).scopes({at::RecordScope::FUNCTION}));
  Pass pass(blocks, flat.layout(), gradients, {batches, step, nn::Mode::Train, at::kFloat, device},
            program);
  for (int m = 0; m < 2; ++m) {
    EXPECT_EQ(uploads, m);
    pass.load(m);
    EXPECT_EQ(uploads, m + 1);
    pass.forward(0, m);
    pass.forward(1, m);
    pass.backward(1, m);
    EXPECT_TRUE(first->alive());
    pass.backward(0, m);
    EXPECT_FALSE(first->alive() || second->alive());
  }
  at::removeCallback(counter);
}

}  // namespace
}  // namespace convoy::parallel
