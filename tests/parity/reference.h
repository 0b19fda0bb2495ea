#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "convoy/optim/lr_schedule.h"
#include "convoy/parallel/run/replica.h"
#include "tests/parity/fixture.h"

// What holds a model against a fixture that training.py helped to make: the same weights, gradients
// and steps of training.
namespace convoy {

using BatchOf = std::function<parallel::MicroBatch(int64_t index)>;

/// Largest difference, in parts of the largest value.
inline double error(const at::Tensor& ours, const at::Tensor& theirs) {
  EXPECT_EQ(ours.sizes(), theirs.sizes());
  return ((ours - theirs).abs().max() / theirs.abs().max()).item<double>();
}

/// A replica of `blocks` with the fixture's weights; where `variant` has its own, with those.
inline std::unique_ptr<parallel::Replica> with_weights(const formats::SafetensorsFile& file,
                                                       nn::BlockList blocks,
                                                       const parallel::ReplicaOptions& options = {},
                                                       const std::string& variant = "") {
  auto replica = std::make_unique<parallel::Replica>(std::move(blocks), comm::Group(), options);
  replica->start();
  for (const auto& slot : replica->flat().all_slots()) {
    const auto& name = slot.param->spec().name;
    const bool own = file.entries().contains(variant + "." + name);
    replica->flat().value_of(name).copy_(
        tensor(file, own ? variant + "." + name : "weight." + name));
  }
  replica->flat().publish_weights();
  return replica;
}

/// The scores of every position.
inline at::Tensor all_logits(parallel::Replica& model, parallel::MicroBatch batch) {
  batch.inputs["logits_to_keep"] = at::zeros({}, at::kLong);
  return model.forward(batch, nn::Mode::Predict).at("logits");
}

/// Loss, targets and hits of the fixture's first batch.
inline void expect_evaluation(parallel::Replica& model, const formats::SafetensorsFile& file,
                              const parallel::MicroBatch& batch) {
  const auto out = model.forward(batch, nn::Mode::Evaluate);
  const auto labels = tensor(file, "labels")[0];
  const auto count = out.at("count").item<double>();
  EXPECT_EQ(count, (labels >= 0).sum().item<double>());
  EXPECT_NEAR(out.at("loss").item<double>() / count / tensor(file, "loss").item<double>(), 1, 1e-6);
  const auto hits = (tensor(file, "logits").argmax(-1) == labels).sum();
  EXPECT_EQ(out.at("correct").item<int64_t>(), hits.item<int64_t>());
}

/// Every gradient is at most 1.5 times as far from double precision's as PyTorch's own.
inline void expect_gradients(parallel::Replica& replica, const formats::SafetensorsFile& file,
                             int64_t count, const BatchOf& batch, const std::string& but = "") {
  parallel::OptimizerOptions still;
  still.max_grad_norm = 0;
  std::map<std::string, double> squares;
  for (int64_t i = 0; i < count; ++i) {
    const auto result = replica.step({batch(i)}, {0, i, /*learning_rate=*/0.0}, still);
    for (const auto& slot : replica.flat().all_slots()) {
      if (!slot.param->spec().trainable) continue;
      const auto& name = slot.param->spec().name;
      auto exact = tensor(file, "grad." + name)[i].to(at::kDouble);
      const auto summed = parallel::FlatBuffers::view(replica.flat().grads(), slot);
      const auto ours = summed.to(at::kDouble) / result.count;
      const auto off = ((ours - exact).norm() / exact.norm()).item<double>();
      squares[name] += off * off / static_cast<double>(count);
    }
  }
  for (const auto& [name, square] : squares) {
    if (!but.empty() && name.ends_with(but)) continue;
    const auto limit = 1.5 * tensor(file, "torch_error." + name).item<double>();
    EXPECT_LE(std::sqrt(square), limit) << name;
  }
}

/// A hundred AdamW steps go as PyTorch's.
inline void expect_losses(parallel::Replica& replica, const formats::SafetensorsFile& file,
                          int64_t num_batches, const BatchOf& batch) {
  constexpr int64_t kSteps = 100;
  const auto losses = tensor(file, "losses");
  ASSERT_EQ(losses.numel(), kSteps);
  optim::LrSchedule schedule{"linear", 2e-3, 0, kSteps};
  parallel::OptimizerOptions optimizer;
  optimizer.weight_decay = 0.05;
  for (int64_t i = 0; i < kSteps; ++i) {
    auto result = replica.step({batch(i % num_batches)}, {0, i, schedule.at(i), i}, optimizer);
    ASSERT_NEAR(result.loss() / losses[i].item<double>(), 1, 1e-4) << "step " << i;
  }
}

}  // namespace convoy
