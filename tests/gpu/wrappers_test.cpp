#include <torch/nn.h>

#include "convoy/wrappers/own_loop.h"
#include "tests/gpu/gpu_testing.h"

namespace convoy::wrappers {
namespace {

using Wrappers = Gpu;

TEST_F(Wrappers, DataParallelOnOneGpuGivesTheModulesGradients) {
  torch::manual_seed(1);
  const auto alone = std::make_shared<torch::nn::LinearImpl>(4, 3);
  const auto net = std::dynamic_pointer_cast<torch::nn::LinearImpl>(alone->clone());
  const auto x = torch::randn({8, 4});
  alone->forward(x).square().mean().backward();
  net->to(gpu_);
  DataParallel<torch::nn::LinearImpl> model(net, {gpu_, gpu_});
  model.forward(x.to(gpu_)).square().mean().backward();
  EXPECT_TRUE(at::allclose(net->weight.grad().cpu(), alone->weight.grad(), 1e-4, 1e-5));
}

TEST_F(Wrappers, AModuleWithoutTrainableParametersHasNoBackwardToRun) {
  const auto net = std::make_shared<torch::nn::LinearImpl>(4, 3);
  for (auto& param : net->parameters()) param.set_requires_grad(false);
  net->to(gpu_);
  DataParallel<torch::nn::LinearImpl> model(net, {gpu_, gpu_});
  auto scale = torch::ones({}, at::device(gpu_)).requires_grad_();
  (model.forward(torch::ones({6, 4}, gpu_)) * scale).sum().backward();
  EXPECT_TRUE(scale.grad().defined());
  EXPECT_FALSE(net->weight.grad().defined());
}

}  // namespace
}  // namespace convoy::wrappers
