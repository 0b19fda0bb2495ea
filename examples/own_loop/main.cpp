// A training loop of one's own. The loop is the same for all; only the wrapper differs:
//   ./own_loop single                     one device
//   ./own_loop dp                         DataParallel: two threads of this process
//   ./own_loop ddp                        DistributedDataParallel: two processes of this program
//   convoy launch -n 2 -- ./own_loop ddp  the same, started by a launcher
#include <convoy/convoy.h>
#include <torch/nn.h>
#include <torch/optim.h>

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  torch::nn::Linear in{nullptr}, out{nullptr};

  NetImpl() { reset(); }
  void reset() override {
    in = register_module("in", torch::nn::Linear(8, 64));
    out = register_module("out", torch::nn::Linear(64, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(in(x))); }
};

// Trains on rows rank, rank + ranks, ... and prints the loss over all rows.
template <class Model>
void train(Model& model, int rank, int ranks) {
  torch::manual_seed(2);  // the same data everywhere
  auto x = torch::randn({1024, 8});
  auto y = torch::sin(x.sum(1, true));
  auto mine = torch::arange(rank, 1024, ranks);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    auto loss = torch::mse_loss(model.forward(x.index_select(0, mine)), y.index_select(0, mine));
    loss.backward();  // with a wrapper, gradients are those of the whole batch from here on
    optimizer.step();
  }
  torch::NoGradGuard no_grad;
  at::Tensor loss = torch::mse_loss(model->forward(x), y);
  if (rank == 0) fmt::print("loss {:.5f}\n", loss.item<double>());
}

// A model without a wrapper, with the wrappers' interface.
struct Plain {
  std::shared_ptr<NetImpl> net;
  at::Tensor forward(const at::Tensor& x) { return net->forward(x); }
  NetImpl* operator->() { return net.get(); }
};

int main(int argc, char** argv) try {
  convoy::open_devices();  // before torch is used
  const std::string mode = argc > 1 ? argv[1] : "single";
  auto make_net = [] {
    torch::manual_seed(1);
    return std::make_shared<NetImpl>();
  };
  if (mode == "single") {
    Plain model{make_net()};
    train(model, 0, 1);
  } else if (mode == "dp") {
    convoy::DataParallel<NetImpl> model(make_net(), {torch::kCPU, torch::kCPU});
    train(model, 0, 1);
  } else if (mode == "ddp") {
    convoy::spawn(2, [&] {
      const auto& world = convoy::world();
      convoy::DistributedDataParallel<NetImpl> model(make_net());
      train(model, world.rank(), world.size());
    });
  } else {
    fmt::print(stderr, "own_loop: unknown mode '{}'; try single, dp or ddp\n", mode);
    return 2;
  }
} catch (const std::exception& error) {
  return convoy::report_failure(error);
}
