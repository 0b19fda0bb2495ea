// A program of one's own whose module makes a tensor on "cuda", of no number: the current device of
// its thread must be the rank's, or the replica's.
#include <torch/nn.h>

#include "convoy/convoy.h"

namespace {

struct Net : torch::nn::Module {
  torch::nn::Linear in{2, 32}, out{32, 2};
  at::Tensor scale = torch::full({1}, 0.5);

  Net() {
    register_module("in", in), register_module("out", out);
    register_buffer("scale", scale);
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto shift = torch::zeros({32}, x.device().type());
    return out(torch::relu(in(x) + shift)) * scale;
  }
};

/// Whether a point is inside the unit circle.
convoy::Bundle loss(Net& net, const convoy::Bundle& batch) {
  const auto sum = torch::nn::functional::cross_entropy(
      net.forward(batch.at("x")), batch.at("y"),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  return {{"loss", sum}, {"count", torch::tensor(batch.at("y").numel())}};
}

}  // namespace

int main(int argc, char** argv) try {
  convoy::open_devices();
  convoy::TrainingArguments arguments;
  arguments.per_device_train_batch_size = 16;
  arguments.max_steps = 3;
  arguments.save_strategy = "no";
  if (arguments.read_command_line(argc, argv)) return 0;

  torch::manual_seed(1);
  const auto points = torch::randn({256, 2});
  const auto labels = (points.norm(2, 1) < 1).to(torch::kLong);
  const auto data = convoy::make_map_dataset(256, [=](const std::vector<int64_t>& rows) {
    const auto index = torch::tensor(rows);
    return convoy::Bundle{{"x", points.index_select(0, index)},
                          {"y", labels.index_select(0, index)}};
  });
  const auto model = [] { return convoy::module_model(std::make_shared<Net>(), loss); };
  convoy::Trainer trainer(model, arguments, data, data);
  trainer.train();
  const auto metrics = trainer.evaluate();
  if (trainer.is_main()) fmt::print("evaluated: loss {:.6f}\n", metrics.at("eval_loss"));
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "convoy: error: {}\n", error.what());
  return 1;
}
