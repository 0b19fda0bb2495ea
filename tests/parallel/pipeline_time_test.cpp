#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <chrono>
#include <limits>
#include <thread>

#include "tests/parallel/pipeline_testing.h"

// A step takes as long as its simulation says. Blocks sleep instead of computing, so that two cores
// carry four stages.
namespace convoy::parallel {
namespace {

constexpr double kMost = 1.02;  // times as long as simulated

using Seconds = std::chrono::duration<double>;

/// What a block takes, in seconds: forward, and both halves of its backward.
struct Naps {
  double forward = 0.03, input = 0.03, weight = 0.03;
};

/// The last millisecond passes awake: a machine that is busy lets one oversleep.
void nap(double seconds) {
  constexpr double kAwake = 1e-3;
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(Seconds(seconds - kAwake));
  while (std::chrono::steady_clock::now() - begin < Seconds(seconds)) std::this_thread::yield();
}

class Sleep : public torch::autograd::Function<Sleep> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const Naps& naps, const nn::ParamPtr& weight) {
    nap(naps.forward);
    context->saved_data["input"] = naps.input;
    context->saved_data["weight"] = naps.weight;
    context->saved_data["param"] = reinterpret_cast<int64_t>(weight.get());
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    nap(context->saved_data["input"].toDouble());
    auto* weight = reinterpret_cast<nn::Param*>(context->saved_data["param"].toInt());
    const double takes = context->saved_data["weight"].toDouble();
    weight->add_grad(at::kFloat, [takes](at::Tensor& out) {
      nap(takes);
      out.zero_();
    });
    return {grads[0], {}, {}};
  }
};

class Sleeper : public nn::Block {
 public:
  Sleeper(const std::string& name, const Naps& naps, bool last)
      : Block(name),
        naps_(naps),
        last_(last),
        weight_(declare_matrix(name + ".weight", {1, 1}, nn::Init::zeros())) {}

  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    auto x = in.at("x");
    if (!x.requires_grad()) x = x.detach().requires_grad_(true);
    const auto y = Sleep::apply(x, naps_, weight_);
    if (!last_) return {{"x", y}};
    return {{"loss", y.sum()}, {"count", at::ones({}, at::kLong)}};
  }

 private:
  Naps naps_;
  bool last_;
  nn::ParamPtr weight_;
};

/// How long a step of four stages takes beside its simulation; of some steps the nearest, for the
/// machine may be busy with other things.
double measured_over_simulated(const std::vector<Naps>& all, const std::string& schedule) {
  constexpr int kStages = 4, kSteps = 12, kMicroBatches = 4;
  const PipelineTrial trial{
      .schedule = schedule, .stages = kStages, .micro_batches = kMicroBatches};
  auto options = trial.options();
  for (const auto& [forward, input, weight] : all) {
    options.counts.push_back({forward, input + weight, weight, 1, 1, 1});
  }
  std::atomic<double> best = std::numeric_limits<double>::infinity();
  const auto is_near = [&best] { return best < kMost; };
  run_pipeline_ranks(
      kStages, 1, std::chrono::seconds(20), [&](const comm::Groups& groups, int rank) {
        nn::BlockList blocks;
        for (size_t b = 0; b < all.size(); ++b) {
          blocks.push_back(
              std::make_shared<Sleeper>("block" + std::to_string(b), all[b], b + 1 == all.size()));
        }
        Replica replica(blocks, groups, options);
        replica.start();
        const MicroBatch batch{{{"x", at::ones({1, 1})}}, at::arange(1, at::kLong)};
        for (int64_t step = 0; step < kSteps; ++step) {
          const std::vector<MicroBatch> batches(kMicroBatches, batch);
          groups.world.barrier("begin");
          if (is_near()) return;
          const auto begin = std::chrono::steady_clock::now();
          replica.step(batches, input_of_step(step), {});
          const Seconds took = std::chrono::steady_clock::now() - begin;
          if (rank == 0)
            best = std::min(best.load(), took / Seconds(replica.plan().timeline.length));
        }
      });
  return best;
}

TEST(PipelineTime, IsThatOfTheSimulation) {
  const std::vector<Naps> alike(8);
  const std::vector<Naps> uneven{{0.06, 0.03, 0.02}, {0.02, 0.03, 0.03}, {0.03, 0.06, 0.03},
                                 {0.03, 0.02, 0.06}, {0.02, 0.02, 0.02}, {0.05, 0.03, 0.06},
                                 {0.03, 0.03, 0.03}, {0.06, 0.06, 0.03}};
  for (const auto& [schedule, naps] : {std::pair{"1f1b", alike},
                                       {"interleaved", alike},
                                       {"zero_bubble", uneven},
                                       {"auto", uneven}}) {
    SCOPED_TRACE(schedule);
    const double ratio = measured_over_simulated(naps, schedule);
    EXPECT_GT(ratio, 0.99);
    EXPECT_LT(ratio, kMost);
  }
}

}  // namespace
}  // namespace convoy::parallel
