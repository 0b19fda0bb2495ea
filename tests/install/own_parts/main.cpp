#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <convoy/comm/engine_registry.h>
#include <convoy/comm/gloo/gloo_engine.h>
#include <convoy/optim/optimizer.h>
#include <convoy/parallel/pipeline/pipeline.h>
#include <convoy/program.h>

#include <memory>
#include <string>
#include <vector>

// The program with an engine, an optimizer and a pipeline schedule of one's own, against an
// installed copy. Families, tasks and commands are added by examples/own_family and own_task.
namespace {

using namespace convoy;

/// Gradient descent with momentum.
class Momentum : public optim::Optimizer {
 public:
  explicit Momentum(const optim::Settings& settings) : kept_(settings.beta1) {}

  std::string name() const override { return "momentum"; }
  std::vector<optim::StateSpec> states() const override { return {{"momentum_buffer"}}; }

  void update(const optim::FlatRange& stretch, const optim::StepNumbers& numbers) const override {
    const at::NoGradGuard no_grad;
    auto weights = stretch.weights, momentum = stretch.states[0];
    momentum.mul_(kept_).add_(stretch.grads, 1 / numbers.grad_divisor);
    weights.sub_(momentum, numbers.learning_rate);
    if (stretch.rounded.defined()) at::Tensor(stretch.rounded).copy_(weights);
  }

 private:
  double kept_;
};

optim::OptimizerPtr make_momentum(const optim::Settings& settings) {
  return std::make_shared<Momentum>(settings);
}

/// Each micro-batch goes there and back before the next one comes.
parallel::Orders one_by_one(const parallel::Pipe& pipe) {
  parallel::Orders out;
  for (int rank = 0; rank < pipe.num_ranks(); ++rank) {
    auto& order = out.emplace_back();
    const int64_t own = pipe.virtual_stages_of(rank).front();
    for (int64_t m = 0; m < pipe.num_micro_batches; ++m) {
      order.push_back({own, parallel::ActionKind::Forward, m});
      order.push_back({own, parallel::ActionKind::Backward, m});
    }
  }
  return out;
}

std::string carries_all(const comm::Gathering&) {
  return "";
}

comm::Group make_plain(const comm::Gathering& gathering) {
  return comm::make_gloo_group(gathering.point, gathering.store);
}

}  // namespace

int main(int argc, char** argv) {
  comm::add_engine({"plain", false, carries_all, make_plain});
  optim::add_optimizer({"momentum", "SGD with momentum", false, make_momentum});
  parallel::add_pipeline_schedule(
      {.name = "one_by_one", .help = "one micro-batch at a time", .orders = one_by_one});
  run_program(argc, argv);
}
