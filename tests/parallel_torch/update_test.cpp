#include "convoy/parallel/buffers/update.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "convoy/nn/declare.h"
#include "convoy/parallel/buffers/state.h"
#include "convoy/parallel/run_plan/run_plan.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"

namespace convoy::parallel {
namespace {

/// Weights and moments by name after one update on `tensors` ranks that share out parameters, with
/// gradients that are a function of an element's place in its parameter.
std::map<std::string, at::Tensor> updated_on(int tensors, const std::string& optimizer) {
  std::mutex mutex;
  std::map<std::string, at::Tensor> out;
  comm::run_thread_ranks(tensors, [&](const comm::Group& world) {
    FlatBuffersOptions options;
    options.optimizer = optim::make_optimizer(optimizer);
    const auto blocks = models::small_gpt2({.ids = 23, .width = 12, .length = 6}).make_blocks();
    const parallel::LayoutOptions place{.tensor = {world.rank(), tensors}};
    FlatBuffers flat(blocks, parallel::layout_of(nn::declare(blocks), place), options);
    const auto& layout = flat.layout();
    for (const auto& piece : layout.pieces(0)) {
      const int64_t bucket = layout.bucket_of(piece.unit);
      parallel::each_row(piece, [&](const parallel::Piece& row) {
        const parallel::Extent extent{row.place, row.end()};
        const auto index = at::arange(row.begin, row.begin + row.length, at::kFloat);
        flat.grads(bucket, extent).copy_((index * 0.37).sin());
        flat.masters(bucket, extent).copy_((index * 0.11).cos());
      });
    }
    comm::Groups groups;
    groups.world = world;
    Update update(flat, groups, /*may_overflow=*/false);
    const OptimizerOptions how{.weight_decay = 0.1, .max_grad_norm = 0};
    const StepInput input{.seed = 3, .learning_rate = 1e-2};
    update.begin_step(input, how);
    if (world.rank() == 0) update.add(at::zeros({}), at::ones({}));
    update.close_totals();
    update.reduce_totals();
    ASSERT_TRUE(update.clip());
    for (int64_t bucket = 0; bucket < layout.num_trained_buckets(); ++bucket) {
      update.add_bucket(bucket);
      ASSERT_TRUE(update.update_added());
    }
    const std::lock_guard lock(mutex);
    for (const auto& state : {weights_of(flat, {}, groups), moments_of(flat, groups)}) {
      for (const auto& tensor : state) {
        auto& whole = out[tensor.name];
        if (!whole.defined()) {
          whole = at::zeros({parallel::num_elements(tensor.shape)}, tensor.dtype);
        }
        for (const auto& piece : tensor.pieces) {
          const auto values = piece.values.contiguous().view({-1});
          each_row(piece, [&](int64_t begin, int64_t at, int64_t length) {
            whole.narrow(0, begin, length).copy_(values.narrow(0, at, length));
          });
        }
      }
    }
  });
  return out;
}

TEST(Update, RandomDrawsDoNotDependOnHowParametersAreCut) {
  for (const auto& optimizer : optim::optimizer_names()) {
    SCOPED_TRACE(optimizer);
    const auto whole = updated_on(1, optimizer);
    EXPECT_EQ(whole.at("exp_avg.transformer.wte.weight").scalar_type(),
              optim::make_optimizer(optimizer)->states()[0].dtype);
    const auto halves = updated_on(2, optimizer);
    ASSERT_EQ(whole.size(), halves.size());
    for (const auto& [name, values] : whole) {
      EXPECT_TRUE(values.equal(halves.at(name))) << name;
      EXPECT_TRUE(values.ne(0).any().item<bool>()) << name;
    }
  }
}

/// Loss and norm of a step whose gradients are `weight` each and whose rows weigh as much.
StepResult weighed(double weight) {
  FlatBuffersOptions options;
  options.optimizer = optim::make_optimizer("adamw_torch");
  const auto blocks = models::small_gpt2({.ids = 23, .width = 12, .length = 6}).make_blocks();
  FlatBuffers flat(blocks, parallel::layout_of(nn::declare(blocks), parallel::LayoutOptions{}),
                   options);
  for (int64_t bucket = 0; bucket < flat.layout().num_trained_buckets(); ++bucket) {
    flat.grads(bucket, flat.kept(parallel::Kind::Gradients, bucket)).fill_(weight);
  }
  Update update(flat, {}, /*may_overflow=*/false);
  const OptimizerOptions how;
  const StepInput input{.learning_rate = 1e-2};
  update.begin_step(input, how);
  update.add(at::full({}, 3 * weight), at::full({}, weight, at::kDouble));
  update.close_totals();
  update.reduce_totals();
  EXPECT_TRUE(update.clip());
  return update.result;
}

TEST(Update, DividesGradientsByTheCountAsTheLossAlsoBelowOne) {
  const auto whole = weighed(1), quarter = weighed(0.25);
  EXPECT_EQ(quarter.loss(), whole.loss());
  EXPECT_EQ(quarter.grad_norm, whole.grad_norm);
}

}  // namespace
}  // namespace convoy::parallel
