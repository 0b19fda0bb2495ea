#include "convoy/wrappers/own_loop.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <torch/nn.h>
#include <set>

#include "convoy/base/error.h"
#include "convoy/nn/module_block.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::wrappers {
namespace {

/// With a layer that only even calls use, and running statistics.
struct NetImpl : torch::nn::Cloneable<NetImpl> {
  torch::nn::Linear in{nullptr}, out{nullptr}, rare{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  bool use_rare = true;

  NetImpl() { reset(); }
  void reset() override {
    in = register_module("in", torch::nn::Linear(4, 6));
    out = register_module("out", torch::nn::Linear(6, 1));
    rare = register_module("rare", torch::nn::Linear(6, 1));
    norm = register_module(
        "norm", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(6).track_running_stats(true)));
  }
  at::Tensor body(const at::Tensor& x) { return torch::tanh(in(x)); }
  at::Tensor forward(const at::Tensor& x) {
    auto h = norm->is_training() ? body(x) : norm(body(x));
    return use_rare ? out(h) + rare(h) : out(h);
  }
};

std::shared_ptr<NetImpl> make_net(int seed) {
  torch::manual_seed(seed);
  return std::make_shared<NetImpl>();
}

at::Tensor rows() {
  torch::manual_seed(9);
  return torch::randn({8, 4});
}

std::vector<at::Tensor> gradients(torch::nn::Module& module) {
  std::vector<at::Tensor> out;
  for (const auto& param : module.parameters()) {
    out.push_back(param.grad().defined() ? param.grad().clone() : at::zeros_like(param));
  }
  return out;
}

void expect_close(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::allclose(a[i], b[i], 1e-5, 1e-7)) << i << "\n" << a[i] << "\n" << b[i];
  }
}

TEST(DistributedDataParallel, GradientsAreThoseOfTheWholeBatch) {
  auto x = rows();
  auto alone = make_net(1);
  alone->forward(x).square().mean().backward();
  auto expected = gradients(*alone);
  std::vector<std::shared_ptr<NetImpl>> nets{make_net(1),
                                             make_net(2)};  // made equal by the wrapper
  comm::run_thread_ranks(2, [&](comm::Group group) {
    auto net = nets[static_cast<size_t>(group.rank())];
    DistributedDataParallel<NetImpl> model(net, group, /*bucket_bytes=*/64);
    model.forward(x.narrow(0, 4 * group.rank(), 4)).square().mean().backward();
    expect_close(gradients(*net), expected);
    EXPECT_GT(group.traffic().collectives, 2);
  });
}

TEST(DistributedDataParallel, NoSyncAddsUpUntilTheNextSync) {
  auto x = rows();
  auto alone = make_net(1);
  alone->forward(x).square().mean().backward();
  auto expected = gradients(*alone);
  std::vector<std::shared_ptr<NetImpl>> nets{make_net(1), make_net(1)};
  comm::run_thread_ranks(2, [&](comm::Group group) {
    auto net = nets[static_cast<size_t>(group.rank())];
    DistributedDataParallel<NetImpl> model(net, group);
    const auto before = group.traffic().collectives;
    auto part = [&](int i) { return x.narrow(0, 4 * group.rank() + 2 * i, 2); };
    {
      auto guard = model.no_sync();
      {
        auto inner = model.no_sync();
      }  // leaves it as it was
      (model.forward(part(0)).square().mean() / 2).backward();
    }
    std::set<at::ScalarType> types;  // buffers of each are broadcast together
    for (const auto& buffer : net->buffers()) types.insert(buffer.scalar_type());
    EXPECT_EQ(group.traffic().collectives - before, std::ssize(types));  // no gradient travelled
    (model.forward(part(1)).square().mean() / 2).backward();
    expect_close(gradients(*net), expected);
  });
}

TEST(DistributedDataParallel, NeedsAModule) {
  EXPECT_THROW(DistributedDataParallel<NetImpl>(nullptr, comm::Group()), UsageError);
  EXPECT_THROW(DataParallel<NetImpl>(nullptr, {at::kCPU, at::kCPU}), UsageError);
}

TEST(DistributedDataParallel, ParametersWithoutGradientAreFine) {
  auto x = rows();
  std::vector<std::shared_ptr<NetImpl>> nets{make_net(1), make_net(1)};
  nets[1]->use_rare = false;  // on one rank only
  auto alone = make_net(1);
  auto half = alone->forward(x.narrow(0, 0, 4)).square().mean();
  alone->use_rare = false;
  ((half + alone->forward(x.narrow(0, 4, 4)).square().mean()) / 2).backward();
  auto expected = gradients(*alone);
  comm::run_thread_ranks(2, [&](comm::Group group) {
    auto net = nets[static_cast<size_t>(group.rank())];
    DistributedDataParallel<NetImpl> model(net, group);
    for (int step = 0; step < 3; ++step) {
      for (auto& param : net->parameters()) param.mutable_grad().reset();
      model.forward(x.narrow(0, 4 * group.rank(), 4)).square().mean().backward();
      expect_close(gradients(*net), expected);
    }
  });
}

TEST(DistributedDataParallel, RanksThatFreezeOtherParametersAreToldWhich) {
  std::vector<std::shared_ptr<NetImpl>> nets{make_net(1), make_net(1)};
  nets[1]->in->weight.set_requires_grad(false);
  comm::run_thread_ranks(2, [&](comm::Group group) {
    auto net = nets[static_cast<size_t>(group.rank())];
    try {
      DistributedDataParallel<NetImpl> model(net, group);
      FAIL() << "wrapped";
    } catch (const UsageError& error) {
      EXPECT_NE(
          std::string(error.what()).find("'in.weight' [6, 4] of float without gradient on rank 1"),
          std::string::npos)
          << error.what();
    }
  });
}

TEST(DistributedDataParallel, BuffersFollowRankZero) {
  std::vector<std::shared_ptr<NetImpl>> nets{make_net(1), make_net(2)};
  comm::run_thread_ranks(2, [&](comm::Group group) {
    auto net = nets[static_cast<size_t>(group.rank())];
    net->norm->running_mean.fill_(group.rank() + 1.0);
    DistributedDataParallel<NetImpl> model(net, group);
    model.forward(rows());
    EXPECT_TRUE((net->norm->running_mean == 1).all().item<bool>());
  });
}

TEST(DataParallel, OutputsAndGradientsAreThoseOfTheModule) {
  for (int64_t count : {8, 5, 1}) {
    auto x = rows().narrow(0, 0, count);
    auto alone = make_net(1);
    auto expected = alone->forward(x);
    expected.square().mean().backward();
    DataParallel<NetImpl> model(make_net(1), {at::kCPU, at::kCPU});
    auto out = model.forward(x);
    EXPECT_TRUE(at::allclose(out, expected));
    out.square().mean().backward();
    expect_close(gradients(*model.module()), gradients(*alone));
  }
}

TEST(DataParallel, FrozenParametersInputGradientsAndModesAreKept) {
  auto alone = make_net(1);
  auto net = make_net(1);
  for (auto* module : {alone.get(), net.get()}) module->in->weight.set_requires_grad(false);
  auto x = rows().requires_grad_(), y = rows().requires_grad_();
  alone->forward(x).square().mean().backward();
  DataParallel<NetImpl> model(net, {at::kCPU, at::kCPU});
  net->train();
  net->norm->eval();
  auto mean = net->norm->running_mean.clone();
  model.forward(y).square().mean().backward();
  EXPECT_FALSE(net->in->weight.grad().defined());
  EXPECT_TRUE(at::allclose(x.grad(), y.grad()));
  EXPECT_TRUE(at::equal(net->norm->running_mean, mean));
}

TEST(DataParallel, RefusesAnInputWithoutRows) {
  DataParallel<NetImpl> model(make_net(1), {at::kCPU, at::kCPU});
  EXPECT_THROW(model.forward(rows().narrow(0, 0, 0)), UsageError);
}

TEST(DataParallel, ReplicasFollowTheWeights) {
  DataParallel<NetImpl> model(make_net(1), {at::kCPU, at::kCPU});
  auto before = model.forward(rows());
  {
    at::NoGradGuard no_grad;
    for (auto& param : model->parameters()) param.mul_(2);
  }
  EXPECT_TRUE(at::allclose(model.forward(rows()), model->forward(rows())));
  EXPECT_FALSE(at::allclose(model.forward(rows()), before));
}

TEST(Wrappers, AModuleIsWrappedOnce) {
  auto net = make_net(1);
  auto message = [&](auto&& make) -> std::string {
    try {
      make();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  auto trainer_model = [&] {
    nn::module_model(net, [](NetImpl&, const nn::Bundle& in) { return in; });
  };
  {
    DistributedDataParallel<NetImpl> wrapped(net, comm::Group());
    EXPECT_NE(message(trainer_model).find("wrapped in DistributedDataParallel already"),
              std::string::npos);
    EXPECT_NE(message([&] { DataParallel<NetImpl>(net, {at::kCPU}); }).find("reduced twice"),
              std::string::npos);
  }
  EXPECT_EQ(message(trainer_model), "");
}

TEST(DistributedDataParallel, NamesTheParameterThatDiffersBetweenRanks) {
  comm::run_thread_ranks(2, [](comm::Group group) {
    auto net = make_net(1);
    if (group.rank() == 1) net->out = net->replace_module("out", torch::nn::Linear(7, 1));
    std::string said;
    try {
      DistributedDataParallel<NetImpl> model(net, group);
    } catch (const UsageError& error) {
      said = error.what();
    }
    EXPECT_NE(said.find("got parameter 'out.weight' [1, 7] of float on rank 1, parameter "
                        "'out.weight' [1, 6] of float on rank 0"),
              std::string::npos)
        << said;
  });
}

}  // namespace
}  // namespace convoy::wrappers
