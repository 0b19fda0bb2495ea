#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/optim/optimizer.h"

// One of one's own is a class and a line: EachOptimizer (optimizer_test.cpp) asks of it what it
// asks of the others.
namespace convoy::optim {
namespace {

/// Gradient descent with momentum.
class Momentum : public Optimizer {
 public:
  explicit Momentum(const Settings& settings) : kept_(settings.beta1) {}

  std::string name() const override { return "momentum"; }
  std::vector<StateSpec> states() const override { return {{"momentum_buffer"}}; }

  void update(const FlatRange& stretch, const StepNumbers& numbers) const override {
    const at::NoGradGuard no_grad;
    auto weights = stretch.weights, momentum = stretch.states[0];
    momentum.mul_(kept_).add_(stretch.grads, 1 / numbers.grad_divisor);
    weights.mul_(1 - numbers.learning_rate * stretch.weight_decay)
        .sub_(momentum, numbers.learning_rate);
    if (stretch.rounded.defined()) at::Tensor(stretch.rounded).copy_(weights);
  }

 private:
  double kept_;
};

OptimizerPtr make_momentum(const Settings& settings) {
  return std::make_shared<Momentum>(settings);
}

const OptimizerEntry kMomentum{"momentum", "SGD with momentum", false, make_momentum};
[[maybe_unused]] const bool kAdded = (add_optimizer(kMomentum), true);

TEST(OwnOptimizer, IsFoundByItsName) {
  EXPECT_EQ(make_optimizer("momentum")->states()[0].name, "momentum_buffer");
  EXPECT_NE(optimizer_help().find("momentum (SGD with momentum)"), std::string::npos);
  for (const auto& name : optimizers_with_epsilon()) EXPECT_NE(name, "momentum");
}

TEST(OwnOptimizer, IsAddedOnce) {
  EXPECT_THROW(add_optimizer(kMomentum), InternalError);
}

}  // namespace
}  // namespace convoy::optim
