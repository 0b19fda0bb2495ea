#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <mutex>

#include "convoy/base/error.h"
#include "convoy/formats/safetensors.h"
#include "convoy/nn/module_block.h"
#include "tests/train/testing.h"

// A user's own torch::nn::Module under the Trainer.
namespace convoy::train {
namespace {

using ::testing::HasSubstr;

/// With running statistics, a frozen layer, and one that is never used.
struct Net : torch::nn::Module {
  torch::nn::Linear in{6, 12}, out{12, 3}, frozen{6, 12}, unused{2, 2};
  torch::nn::BatchNorm1d norm{nullptr};

  explicit Net(bool with_norm) {
    register_module("in", in);
    register_module("out", out);
    register_module("frozen", frozen);
    register_module("unused", unused);
    if (with_norm) norm = register_module("norm", torch::nn::BatchNorm1d(12));
    for (auto& param : frozen->parameters()) param.set_requires_grad(false);
  }
  at::Tensor forward(const at::Tensor& x) {
    auto h = in(x) + frozen(x);
    return out(torch::tanh(norm ? norm(h) : h));
  }
};

nn::Bundle loss(Net& net, const nn::Bundle& batch) {
  auto scores = net.forward(batch.at("x"));
  auto sum = torch::nn::functional::cross_entropy(
      scores, batch.at("y"),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  return {{"loss", sum}, {"count", torch::tensor(batch.at("y").numel())}};
}

parallel::ModelFactory model(bool with_norm, std::shared_ptr<Net>* keep = nullptr) {
  return [=] {
    static std::mutex generator;  // torch's own, shared by the ranks that are threads here
    std::lock_guard lock(generator);
    torch::manual_seed(5);
    auto net = std::make_shared<Net>(with_norm);
    if (keep && !*keep) *keep = net;
    return nn::module_model(net, loss);
  };
}

std::shared_ptr<dataset::Dataset> points() {
  torch::manual_seed(3);
  auto x = torch::randn({90, 6});
  auto y = x.narrow(1, 0, 3).argmax(1);
  return dataset::make_map_dataset(90, [=](const std::vector<int64_t>& rows) {
    auto index = torch::tensor(rows, torch::kLong);
    return nn::Bundle{{"x", x.index_select(0, index)}, {"y", y.index_select(0, index)}};
  });
}

class OpaqueModule : public InFolder {
 protected:
  options::TrainingArguments arguments(int64_t per_device, int64_t accumulation = 1) {
    options::TrainingArguments out;
    out.per_device_train_batch_size = per_device;
    out.per_device_eval_batch_size = 30;
    out.gradient_accumulation_steps = accumulation;
    out.num_train_epochs = 4;
    out.learning_rate = 0.05;
    out.logging_steps = 1;
    out.save_strategy = "no";
    out.output.quiet = true;
    return out;
  }

  /// Trains once with this model, and returns what is said against it.
  std::string refusal(const parallel::ModelFactory& factory) {
    auto once = arguments(8);
    once.parallel.strategy = "single";
    try {
      Trainer(factory, once, points()).train();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  options::TrainingArguments of_stage(int64_t stage) {
    auto out = arguments(8);
    out.parallel.parallelism.bucket_bytes = 0;
    out.parallel.parallelism.offload.folder = folder_.string();
    out.parallel.parallelism.zero = std::min<int64_t>(stage, 3);
    if (stage == 4) out.parallel.parallelism.offload.parameters = parallel::Place::Disk;
    return out;
  }

  /// On two ranks every stage of ZeRO, and the last with weights on the disk (4), gives the bits of
  /// DistributedDataParallel, which are returned. Each rank's replica is shown to `look`.
  Outcome expect_stages_agree(const parallel::ModelFactory& make,
                              const std::function<void(int64_t, parallel::Replica&)>& look) {
    Outcome expected;
    for (const int64_t stage : {0, 1, 2, 3, 4}) {
      SCOPED_TRACE(stage);
      const auto options = of_stage(stage);
      const auto outcome = outcome_of_ranks(2, [&](const job::Job& job) {
        const auto own = outcome_of(make, data_, options, job);
        Trainer trainer(make, options, data_, nullptr, job);
        look(stage, trainer.strategy().replica());
        return own;
      });
      if (stage == 0) expected = outcome;
      expect_same_bits(expected, outcome, expected.losses.size());
    }
    EXPECT_LT(expected.losses.back(), expected.losses.front());
    return expected;
  }

  std::vector<double> losses(bool with_norm, const options::TrainingArguments& arguments,
                             const job::Job& job) {
    Trainer trainer(model(with_norm), arguments, data_, nullptr, job);
    auto recorder = std::make_shared<Recorder>();
    trainer.add_callback(recorder);
    trainer.train();
    return recorder->losses;
  }

  std::shared_ptr<dataset::Dataset> data_ = points();
};

TEST_F(OpaqueModule, IsRefusedWhereItCannotBeTrained) {
  const auto with = [](const auto& change) {
    return [=] {
      return nn::module_model(std::make_shared<Net>(false), [=](Net& net, const nn::Bundle& in) {
        auto out = loss(net, in);
        change(out.at("loss"));
        return out;
      });
    };
  };
  EXPECT_THAT(refusal(with([](at::Tensor& it) { it = it.detach(); })), HasSubstr("was detached"));
  EXPECT_THAT(refusal(with([](at::Tensor& it) { it = it.expand({8}); })),
              HasSubstr("is of shape [8]; expected one number"));
  EXPECT_THAT(refusal([] {
                auto net = std::make_shared<Net>(false);
                for (auto& param : net->parameters()) param.set_requires_grad(false);
                return nn::module_model(net, loss);
              }),
              HasSubstr("the model has no weights to train"));
  EXPECT_THAT(refusal([] { return nn::module_model(std::shared_ptr<Net>(), loss); }),
              HasSubstr("the module is null"));
  EXPECT_THAT(refusal([] { return nn::BlockList{}; }), HasSubstr("the model has no blocks"));
  EXPECT_THAT(refusal([] { return nn::BlockList{nullptr}; }), HasSubstr("is null"));
  EXPECT_THAT(refusal(nullptr), HasSubstr("got no function that makes the model"));
  {
    const at::NoGradGuard none;
    EXPECT_THAT(refusal(model(false)), HasSubstr("training needs gradients, which are off"));
  }
}

template <class Storage>
constexpr bool kRefusesReads = requires(Storage& it) { it.clear_data_ptr_access_error_msg_(); };

TEST_F(OpaqueModule, SaysThatItsShardsCannotBeRead) {
  if (!kRefusesReads<c10::StorageImpl>) GTEST_SKIP() << "this torch has no error for it";
  std::shared_ptr<Net> kept;
  const auto make = model(false, &kept);
  run_two_ranks([&](const job::Job& job) {
    Trainer trainer(make, of_stage(3), data_, nullptr, job);
    trainer.train();
  });
  try {
    (void)kept->in->weight.sum().item<float>();
    FAIL() << "read";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("these weights are sharded over the ranks (zero = 3)"));
  }
}

TEST_F(OpaqueModule, LeavesTheThreadsOfTheProgramAsTheyWere) {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  EXPECT_EQ(refusal(model(false)), "");
  EXPECT_EQ(at::get_num_threads(), 3);
  at::set_num_threads(before);
}

TEST_F(OpaqueModule, RanksThatFreezeOtherParametersAreToldWhich) {
  for (const int64_t stage : {0, 3}) {
    run_two_ranks([&](const job::Job& job) {
      const auto make = [&] {
        auto net = std::make_shared<Net>(false);
        if (!job.is_main()) net->in->weight.set_requires_grad(false);
        return nn::module_model(net, loss);
      };
      try {
        Trainer(make, of_stage(stage), data_, nullptr, job).train();
        FAIL() << "trained";
      } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("'in.weight'"));
        EXPECT_THAT(error.what(), HasSubstr("without gradient on rank 1"));
      }
    });
  }
}

TEST_F(OpaqueModule, EveryStrategyGivesTheSameBits) {
  auto single = losses(false, arguments(8, 2), one_device());
  EXPECT_LT(single.back(), 0.5 * single.front());
  EXPECT_EQ(losses(false, arguments(8), replicas(2)), single);
  std::vector<double> ddp;
  run_two_ranks([&](const job::Job& job) {
    auto mine = losses(false, arguments(8), job);
    if (job.is_main()) ddp = mine;
  });
  EXPECT_EQ(ddp, single);
}

/// Its frozen layer has a bucket of its own.
TEST_F(OpaqueModule, StageThreeSaysThatItIsGatheredAsAWhole) {
  auto options = arguments(8);
  options.max_steps = 1;
  options.parallel.parallelism.zero = 3;
  run_ranks(2, [&](const job::Job& job) {
    Trainer trainer(model(false), options, data_, nullptr, job);
    EXPECT_EQ(trainer.strategy().replica().flat().layout().num_buckets(), 2);
    const auto warned = warnings_of(trainer);
    if (!job.is_main()) return;
    EXPECT_THAT(warned,
                testing::Contains(testing::HasSubstr("zero = 3 gathers the whole model at once")));
  });
}

TEST_F(OpaqueModule, BuffersAreKeptInStepAndSaved) {
  auto dp = losses(true, arguments(8), replicas(2));
  std::vector<double> ddp;
  std::vector<std::shared_ptr<Net>> nets(2);
  std::vector<double> evaluated(2);
  run_two_ranks([&](const job::Job& job) {
    const auto rank = static_cast<size_t>(job.environment.rank);
    auto own = arguments(8);
    own.output.dir = (folder_ / "run").string();
    Trainer trainer(model(true, &nets[rank]), own, data_, data_, job);
    auto recorder = std::make_shared<Recorder>();
    trainer.add_callback(recorder);
    trainer.train();
    if (job.is_main()) ddp = recorder->losses;
    evaluated[rank] = trainer.evaluate().at("eval_loss");
  });
  EXPECT_EQ(ddp, dp);  // batch statistics are those of each half, in both
  EXPECT_TRUE(at::equal(nets[0]->norm->running_mean, nets[1]->norm->running_mean));
  EXPECT_EQ(nets[0]->norm->num_batches_tracked.item<int64_t>(), 24);

  formats::SafetensorsFile file((folder_ / "run/model.safetensors").string());
  EXPECT_EQ(file.entry("norm.num_batches_tracked").dtype, "I64");
  std::shared_ptr<Net> net;
  Trainer later(model(true, &net), arguments(8), nullptr, data_, one_device());
  later.load_weights(folder_ / "run");
  EXPECT_TRUE(at::equal(net->norm->running_var, nets[0]->norm->running_var));
  EXPECT_NEAR(later.evaluate().at("eval_loss"), evaluated[0], 1e-6);
}

TEST_F(OpaqueModule, DataParallelNeedsAModuleForEachReplica) {
  auto shared = std::make_shared<Net>(false);
  try {
    Trainer([=] { return nn::module_model(shared, loss); }, arguments(8), data_, nullptr,
            replicas(2));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("make the module inside the factory"),
              std::string::npos);
  }
}

TEST_F(OpaqueModule, FrozenAndUnusedParametersKeepTheirValues) {
  std::shared_ptr<Net> net;
  Trainer trainer(model(false, &net), arguments(16), data_, nullptr, one_device());
  auto frozen = net->frozen->weight.clone(), unused = net->unused->weight.clone();
  auto used = net->in->weight.clone();
  trainer.train();
  EXPECT_TRUE(at::equal(net->frozen->weight, frozen));
  EXPECT_TRUE(at::equal(net->unused->weight, unused));
  EXPECT_FALSE(at::equal(net->in->weight, used));
}

TEST_F(OpaqueModule, StagesOfZeroKeepItsFp32WeightsInBf16Too) {
  auto options = arguments(8);
  options.bf16 = true;
  Outcome expected;
  for (const int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    options.parallel.parallelism.zero = stage;
    const auto outcome = outcome_of_ranks(
        2, [&](const job::Job& job) { return outcome_of(model(true), data_, options, job); });
    if (stage == 0) expected = outcome;
    expect_same_bits(expected, outcome, expected.losses.size());
  }
  EXPECT_LT(expected.losses.back(), expected.losses.front());
}

/// One layer of a net whose layers are blocks of their own.
struct Layer : torch::nn::Module {
  torch::nn::Linear linear;

  Layer(const std::string& name, int64_t in, int64_t out) : linear(in, out) {
    register_module(name, linear);
  }
};

nn::BlockList layers(bool frozen) {
  static std::mutex generator;
  std::lock_guard lock(generator);
  torch::manual_seed(5);
  nn::BlockList out;
  const std::vector<int64_t> widths{6, 24, 24, 24, 3};
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    const auto name = "layer" + std::to_string(i);
    auto layer = std::make_shared<Layer>(name, widths[i], widths[i + 1]);
    if (frozen && i % 2 == 1) layer->linear->weight.set_requires_grad(false);
    const bool last = i + 2 == widths.size();
    out.push_back(std::make_shared<nn::ModuleBlock>(
        layer,
        [layer, last](const nn::Bundle& in, const nn::Context&) -> nn::Bundle {
          auto y = layer->linear(in.at("x"));
          if (!last) return {{"x", torch::tanh(y)}, {"y", in.at("y")}};
          auto sum = torch::nn::functional::cross_entropy(
              y, in.at("y"),
              torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
          return {{"loss", sum}, {"count", torch::tensor(in.at("y").numel())}};
        },
        name));
  }
  return out;
}

TEST_F(OpaqueModule, FrozenParametersAreShardedToo) {
  const auto make = [] { return layers(/*frozen=*/true); };
  const auto expected = expect_stages_agree(make, [](int64_t stage, parallel::Replica& replica) {
    const auto& layout = replica.flat().layout();
    EXPECT_EQ(layout.num_buckets() - layout.num_trained_buckets(), 2);
    const int64_t kept = 4 * layout.num_elements() / (stage >= 3 ? 2 : 1);
    EXPECT_EQ(replica.memory().parameters, stage == 4 ? 0 : kept);
    const int64_t trained = layout.buckets()[4].all.begin;
    EXPECT_EQ(replica.memory().optimizer, 8 * trained / (stage >= 1 ? 2 : 1));
  });
  expect_same_bits(expected, outcome_of(make, data_, of_stage(4), replicas(2)),
                   expected.losses.size());
}

TEST_F(OpaqueModule, AListOfModulesIsGatheredModuleByModule) {
  expect_stages_agree([] { return layers(/*frozen=*/false); },
                      [](int64_t stage, parallel::Replica& replica) {
                        EXPECT_EQ(replica.flat().layout().num_buckets(), 4);
                        EXPECT_EQ(replica.most_gathered() > 0, stage >= 3);
                        EXPECT_LT(replica.most_gathered(),
                                  replica.flat().layout().num_elements() * 4);
                      });
}

}  // namespace
}  // namespace convoy::train
