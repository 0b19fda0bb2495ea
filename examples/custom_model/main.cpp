// A module of one's own under convoy's Trainer. One program for every strategy:
//   ./custom_model                                            one device
//   ./custom_model --parallel.strategy dp --replicas 2        DataParallel
//   convoy launch -n 2 -- ./custom_model                      DistributedDataParallel
#include <convoy/convoy.h>
#include <torch/nn.h>

// Tells whether a point is inside the unit circle.
struct Net : torch::nn::Module {
  torch::nn::Linear in{2, 32}, out{32, 2};
  torch::nn::BatchNorm1d norm{32};

  Net() { register_module("in", in), register_module("norm", norm), register_module("out", out); }
  at::Tensor forward(const at::Tensor& x) { return out(torch::relu(norm(in(x)))); }
};

// The sum of the loss over the batch, the number of targets, and which answers were right.
convoy::Bundle loss(Net& net, const convoy::Bundle& batch) {
  auto scores = net.forward(batch.at("x"));
  auto sum = torch::nn::functional::cross_entropy(
      scores, batch.at("y"),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  return {{"loss", sum}, {"count", torch::tensor(batch.at("y").numel())}};
}

int main(int argc, char** argv) try {
  convoy::open_devices();  // before torch is used
  convoy::TrainingArguments arguments;
  arguments.per_device_train_batch_size = 64;
  arguments.learning_rate = 1e-2;
  arguments.logging_steps = 20;
  arguments.save_strategy = "no";
  if (const auto help = arguments.read_command_line(argc, argv)) {
    fmt::print("{}", *help);
    return 0;
  }

  torch::manual_seed(1);
  auto points = torch::randn({4096, 2});
  auto labels = (points.norm(2, 1) < 1).to(torch::kLong);
  auto data = convoy::make_map_dataset(4096, [=](const std::vector<int64_t>& rows) {
    auto index = torch::tensor(rows);
    return convoy::Bundle{{"x", points.index_select(0, index)},
                          {"y", labels.index_select(0, index)}};
  });

  auto model = [] { return convoy::module_model(std::make_shared<Net>(), loss); };
  convoy::Trainer trainer(model, arguments, data, data);
  trainer.train();
  auto metrics = trainer.evaluate();
  if (trainer.is_main()) fmt::print("evaluated: loss {:.4f}\n", metrics.at("eval_loss"));
} catch (const std::exception& error) {
  return convoy::report_failure(error);
}
