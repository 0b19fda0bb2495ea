#include <ATen/record_function.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "convoy/checkpoint/adapter.h"
#include "tests/parallel_torch/tensor_testing.h"

// Adapters train in every layout as on one device.
namespace convoy::parallel::tensors {
namespace {

using testing::HasSubstr;

/// All matrices get adapters; B is not zero, so that A has a gradient from the first step on.
nn::BlockList with_lora(const nn::BlockList& blocks, double dropout,
                        const std::vector<std::string>& targets = {"all-linear"},
                        const std::vector<std::string>& saved = {}) {
  checkpoint::AdapterConfig config;
  config.r = 4;
  config.dropout = dropout;
  config.targets = targets;
  config.modules_to_save = saved;
  models::WeightLayout layout;
  layout.head = "lm_head.weight";
  const auto out = checkpoint::adapted(blocks, config, layout);
  for (const auto& param : nn::params_of(out)) {
    if (!param->spec().name.ends_with("lora_B.weight")) continue;
    const_cast<nn::ParamSpec&>(param->spec()).init = nn::Init::normal(0.2);
  }
  return out;
}

Trial lora_trial(const std::string& family, double dropout = 0) {
  Trial out{.family = family, .steps = 6};
  // What BERT's head asks for differs from batch to batch: its dropout has no address.
  const bool some = family == "bert" && dropout > 0;
  std::vector<std::string> targets{"all-linear"};
  if (some) targets = {"query", "key", "intermediate.dense", "output.dense"};
  std::vector<std::string> saved;
  if (family == "classifier") saved = {"classifier"};
  out.change = [=](const nn::BlockList& blocks) {
    return with_lora(blocks, dropout, targets, saved);
  };
  return out;
}

const std::vector<std::string> kLoraFamilies{"gpt2", "llama", "qwen3", "qwen3_5_text", "gemma2",
                                             "phi3", "olmo2", "bert",  "classifier",   "t5"};

// Gradients of an adapter's B are products with the few columns that A gives, whose rounding they
// show.
constexpr Bounds kOfAdapters{.gradient = 2e-5};

class LoraFamilies : public testing::TestWithParam<std::string> {};

TEST_P(LoraFamilies, TensorRanksTrainAsOneDevice) {
  for (const double dropout : {0.0, 0.25}) {
    auto trial = lora_trial(GetParam(), dropout);
    const auto one = train(trial);
    for (const auto& [name, grad] : one.first_grads) {
      EXPECT_TRUE(name.find("lora_") != std::string::npos || name.starts_with("classifier"))
          << name;
      EXPECT_GT(grad.abs().max().item<double>(), 0) << name;
    }
    for (const int ranks : {2, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks, dropout {}", ranks, dropout));
      trial.mesh.tensor = ranks;
      expect_close(train(trial), one, kOfAdapters);
    }
    SCOPED_TRACE(fmt::format("shared tokens, dropout {}", dropout));
    trial.mesh.tensor = 2;
    trial.sequence = true;
    expect_close(train(trial), one, kOfAdapters);
  }
}

TEST_P(LoraFamilies, KeepTheirBitsWhereActivationsAreComputedAgain) {
  auto trial = lora_trial(GetParam(), 0.25);
  const auto kept = train(trial);
  trial.recomputes = true;
  expect_same_bits(train(trial), kept);
  trial.mesh.tensor = 2;
  const auto recomputed = train(trial);
  trial.recomputes = false;
  expect_same_bits(train(trial), recomputed);
}

TEST_P(LoraFamilies, PipelinesShardsAndDataRanksTrainAsOneDevice) {
  auto trial = lora_trial(GetParam(), 0.25);
  trial.empties = false;
  const auto one = train(trial);
  trial.mesh = {.pipeline = 2};
  for (const char* schedule : {"1f1b", "zero_bubble"}) {
    SCOPED_TRACE(schedule);
    trial.schedule = schedule;
    expect_same_bits(train(trial), one);
  }
  trial.schedule = "1f1b";
  trial.mesh = {.pipeline = 2, .shard = 2};
  trial.micro_batches = 1;
  for (const int zero : {0, 1, 2, 3}) {
    SCOPED_TRACE(fmt::format("zero {}", zero));
    trial.zero = zero;
    expect_close(train(trial), one, kOfAdapters);
  }
  trial.mesh = {.shard = 2, .tensor = 2};
  expect_close(train(trial), one, kOfAdapters);
}

TEST_P(LoraFamilies, TrainInBf16) {
  auto trial = lora_trial(GetParam());
  trial.dtype = at::kBFloat16;
  trial.empties = false;
  const auto one = train(trial);
  EXPECT_TRUE(std::isfinite(one.losses.back()));
  trial.mesh = {.shard = 2};
  trial.micro_batches = 1;
  for (const int zero : {0, 1, 2, 3}) {
    SCOPED_TRACE(fmt::format("zero {}", zero));
    trial.zero = zero;
    expect_same_bits(train(trial), one);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LoraFamilies, testing::ValuesIn(kLoraFamilies), name_of_family);

TEST(Lora, ContextRanksTrainAsOneDevice) {
  for (const std::string family : {"gpt2", "llama"}) {
    for (const double dropout : {0.0, 0.25}) {
      SCOPED_TRACE(fmt::format("{}, dropout {}", family, dropout));
      auto trial = lora_trial(family, dropout);
      trial.drops = false;
      const auto one = train(trial);
      trial.mesh.context = 2;
      expect_close(train(trial), one, kOfAdapters);
      trial.mesh.tensor = 2;
      trial.sequence = true;
      expect_close(train(trial), one, kOfAdapters);
    }
  }
}

TEST(Lora, FrozenWeightsHaveNoMasters) {
  const auto trial = lora_trial("llama");
  for (const int ranks : {1, 2}) {
    for (const int zero : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks, zero {}", ranks, zero));
      comm::ThreadConnector connector(std::chrono::seconds(30));
      comm::run_threads(ranks, [&](int rank) {
        const comm::Groups groups({{.shard = ranks}, rank, ranks},
                                  [&](const std::vector<int>& all, const std::string& name) {
                                    return connector.connect(rank, all, name);
                                  });
        ReplicaOptions options;
        options.compute_dtype = at::kBFloat16;
        options.parallelism.zero = zero;
        options.parallelism.keep_bytes = 0;
        Replica replica(trial.change(tensor_blocks("llama")), groups, options);
        replica.start();
        const auto& layout = replica.flat().layout();
        int64_t trained = 0;
        for (int64_t b = 0; b < layout.num_trained_buckets(); ++b) {
          trained += layout.kept(parallel::Kind::Masters, b, rank).length();
        }
        EXPECT_EQ(replica.flat().masters().numel(), trained);
        EXPECT_LT(trained, replica.flat().num_parameters() / 2);
        EXPECT_EQ(replica.memory().parameters, replica.plan().stages.front().memory.parameters);
        for (const auto& tensor : replica.weights()) {
          EXPECT_EQ(tensor.dtype, tensor.trained ? at::kFloat : at::kBFloat16) << tensor.name;
          for (const auto& piece : tensor.pieces) {
            EXPECT_EQ(piece.values.scalar_type(), tensor.dtype) << tensor.name;
            const bool drawn = !tensor.name.ends_with("bias") && piece.values.numel() > 0;
            if (drawn) EXPECT_GT(piece.values.abs().max().item<double>(), 0) << tensor.name;
          }
        }
      });
    }
  }
}

TEST(Lora, BackwardStopsAtTheFirstAdapter) {
  Trial trial{.family = "llama", .steps = 3};
  trial.change = [](const nn::BlockList& blocks) {
    return with_lora(blocks, 0, {"model.layers.1.mlp.down_proj"});
  };
  const auto one = train(trial);
  EXPECT_EQ(one.first_grads.size(), 2);
  for (const auto& [name, grad] : one.first_grads) {
    EXPECT_GT(grad.abs().max().item<double>(), 0) << name;
  }
  trial.recomputes = true;
  expect_same_bits(train(trial), one);
  trial.mesh.pipeline = 2;
  expect_same_bits(train(trial), one);
}

std::mutex products_mutex;
std::vector<std::pair<int64_t, int64_t>> products;  // rows and columns of each

std::unique_ptr<at::ObserverContext> note_product(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  const size_t first = name == "aten::addmm" || name == "aten::addmm_" ? 1 : 0;
  if (name != "aten::mm" && first == 0) return nullptr;
  const auto& a = call.inputs()[first].toTensor();
  const auto& b = call.inputs()[first + 1].toTensor();
  const std::lock_guard lock(products_mutex);
  products.emplace_back(a.size(0), b.size(1));
  return nullptr;
}

/// Sizes of the products of matrices in one step with one micro-batch, sorted.
std::vector<std::pair<int64_t, int64_t>> products_of_step(Trial trial) {
  trial.steps = trial.micro_batches = 1;
  trial.empties = false;
  trial.length = 11;  // 33 tokens: no dimension of a weight
  products.clear();
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(note_product)
                                                .needsInputs(true)
                                                .scopes({at::RecordScope::FUNCTION}));
  train(trial);
  at::removeCallback(handle);
  std::sort(products.begin(), products.end());
  return products;
}

TEST(Lora, NoProductIsForAFrozenGradient) {
  std::set<std::pair<int64_t, int64_t>> gradients;
  for (const auto& param : nn::params_of(tensor_blocks("llama"))) {
    const auto& shape = param->spec().shape;
    if (shape.size() == 2) gradients.insert({shape[0], shape[1]});
  }
  const auto of_weights = [&](const Trial& trial) {
    const auto all = products_of_step(trial);
    return std::count_if(all.begin(), all.end(),
                         [&](const auto& size) { return gradients.contains(size); });
  };
  EXPECT_GE(of_weights({.family = "llama"}), 14);  // two layers of seven matrices
  EXPECT_EQ(of_weights(lora_trial("llama")), 0);
}

TEST(Lora, BelowTheFirstAdapterAreTheProductsOfForwardAlone) {
  const auto count = [](const std::vector<std::string>& targets) {
    Trial trial{.family = "llama"};
    trial.change = [targets](const nn::BlockList& blocks) { return with_lora(blocks, 0, targets); };
    return std::ssize(products_of_step(trial));
  };
  // An adapter at the first layer's end asks for the input's gradient of each of the second's
  // seven matrices, one at the second's end for none.
  EXPECT_EQ(count({"model.layers.0.mlp.down_proj"}) - count({"model.layers.1.mlp.down_proj"}), 7);
}

TEST(Lora, TargetsThatAreNotThereAreNamed) {
  const auto message = [](const std::vector<std::string>& targets,
                          const std::vector<std::string>& saved = {}) -> std::string {
    try {
      with_lora(tensor_blocks("llama"), 0, targets, saved);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({"q_prj"}), HasSubstr("no matrix of the model is named q_prj"));
  EXPECT_THAT(message({"q_prj"}), HasSubstr("did you mean 'q_proj'"));
  EXPECT_THAT(message({"q_proj", "wte"}), HasSubstr("named wte"));
  EXPECT_THAT(message({"embed_tokens"}), HasSubstr("named embed_tokens"));
  EXPECT_THAT(message({"q_proj"}, {"score"}), HasSubstr("modules_to_save = score"));
  EXPECT_EQ(message({"q_proj", "down_proj"}), "");
}

}  // namespace
}  // namespace convoy::parallel::tensors
