#include "convoy/train/loop/torch_seed.h"

#include <gtest/gtest.h>
#include <torch/nn.h>

#include "convoy/nn/module_block.h"
#include "tests/train/testing.h"

// LibTorch's default generator starts at random, and modules of torch::nn draw from it.
namespace convoy::train {
namespace {

struct Noisy : torch::nn::Module {
  torch::nn::Linear linear{6, 3};
  double rate;  // of dropout

  explicit Noisy(double dropout) : rate(dropout) { register_module("linear", linear); }
  at::Tensor forward(const at::Tensor& x) { return linear(torch::dropout(x, rate, true)); }
};

nn::Bundle noisy_loss(Noisy& net, const nn::Bundle& batch) {
  auto sum = torch::nn::functional::cross_entropy(
      net.forward(batch.at("x")), batch.at("y"),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  return {{"loss", sum}, {"count", torch::tensor(batch.at("y").numel())}};
}

class TorchSeed : public InFolder {
 protected:
  static options::TrainingArguments arguments(int64_t seed) {
    options::TrainingArguments out;
    out.per_device_train_batch_size = 8;
    out.max_steps = 5;
    out.logging_steps = 1;
    out.save_strategy = "no";
    out.output.quiet = true;
    out.parallel.strategy = "single";
    out.seed = seed;
    return out;
  }

  static std::shared_ptr<dataset::Dataset> points() {
    const auto x = at::randn({40, 6}, at::detail::createCPUGenerator(3));
    const auto y = x.narrow(1, 0, 3).argmax(1);
    return dataset::make_map_dataset(40, [=](const std::vector<int64_t>& rows) {
      const auto index = torch::tensor(rows, torch::kLong);
      return nn::Bundle{{"x", x.index_select(0, index)}, {"y", y.index_select(0, index)}};
    });
  }
};

TEST_F(TorchSeed, DecidesTheFirstWeightsOfAModule) {
  const auto first_weights = [&](int64_t seed) {
    std::shared_ptr<Noisy> net;
    const auto make = [&net] {
      net = std::make_shared<Noisy>(0);
      return nn::module_model(net, noisy_loss);
    };
    const Trainer trainer(make, arguments(seed), points(), nullptr);
    return net->linear->weight.detach().clone();
  };
  const auto expected = first_weights(7);
  EXPECT_TRUE(at::equal(first_weights(7), expected));
  EXPECT_FALSE(at::equal(first_weights(8), expected));
}

TEST_F(TorchSeed, DecidesADropoutOfAModule) {
  const auto losses = [&] {
    const auto make = [] { return nn::module_model(std::make_shared<Noisy>(0.5), noisy_loss); };
    Trainer trainer(make, arguments(7), points(), nullptr);
    const auto recorder = std::make_shared<Recorder>();
    trainer.add_callback(recorder);
    trainer.train();
    return recorder->losses;
  };
  const auto expected = losses();
  EXPECT_EQ(expected.size(), 5U);
  EXPECT_EQ(losses(), expected);
}

}  // namespace
}  // namespace convoy::train
