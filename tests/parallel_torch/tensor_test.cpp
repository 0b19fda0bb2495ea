#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "convoy/models/language_model.h"
#include "convoy/nn/attention/kv_cache.h"
#include "tests/parallel_torch/tensor_testing.h"

// Ranks that share out the weights of layers train as one device does.
namespace convoy::parallel::tensors {
namespace {

using testing::HasSubstr;

class Families : public testing::TestWithParam<std::string> {};

TEST_P(Families, TrainAsOnOneDevice) {
  // The inputs of Gemma 4's layers magnify rounding, from step to step.
  const bool magnifies = GetParam() == "gemma4_text";
  Trial trial{.family = GetParam(), .steps = magnifies ? 10 : 20};
  const Bounds bounds{.gradient = magnifies ? 5e-5 : 1e-5};
  const auto one = train(trial);
  if (GetParam() != "classifier") {
    EXPECT_LT(one.losses.back(), one.losses.front());
  }
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    trial.mesh.tensor = ranks;
    expect_close(train(trial), one, bounds);
  }
}

TEST_P(Families, KeepTheirBitsWhereActivationsAreComputedAgain) {
  Trial trial{.family = GetParam(), .mesh = {.tensor = 2}};
  const auto kept = train(trial);
  trial.recomputes = true;
  expect_same_bits(train(trial), kept);
}

TEST_P(Families, TrainInBf16) {
  Trial trial{.family = GetParam(), .steps = 4};
  const auto exact = train(trial);
  trial.dtype = at::kBFloat16;
  const auto one = train(trial);
  // What rounding does to one device's gradients; T5's products are not scaled.
  double rounding = 0;
  for (const auto& [name, grad] : exact.first_grads) {
    if (!name.ends_with("key.bias")) {
      rounding = std::max(rounding, distance(one.first_grads.at(name), grad));
    }
  }
  trial.mesh.tensor = 2;
  expect_close(train(trial), one,
               {.first_loss = 1e-3, .gradient = std::max(2e-2, 1.5 * rounding), .loss = 2e-2});
}

INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(kFamilies), name_of_family);

TEST(TensorRanks, HaveOneDevicesLosses) {
  auto losses = models::losses_with_negatives();
  losses.push_back("smoothed");
  for (const auto& loss : losses) {
    SCOPED_TRACE(loss);
    Trial trial{.family = loss, .steps = 20};
    const auto one = train(trial);
    EXPECT_LT(one.losses.back(), one.losses.front());
    trial.mesh.tensor = 3;
    expect_close(train(trial), one);
  }
}

// The sum over ranks is what overflows.
TEST(TensorRanks, SkipTheStepsThatOneDeviceSkips) {
  for (const std::string family : {"gpt2", "llama", "session"}) {
    SCOPED_TRACE(family);
    Trial trial{.family = family, .steps = 5, .dtype = at::kHalf};
    trial.loss_scales = {1, std::exp2(30), 64, std::exp2(28), 8};
    const auto one = train(trial);
    trial.mesh.tensor = 2;
    const auto two = train(trial);
    EXPECT_EQ(one.skipped, (std::vector<bool>{false, true, false, true, false}));
    EXPECT_EQ(two.skipped, one.skipped);
    for (size_t step = 0; step < one.losses.size(); ++step) {
      EXPECT_NEAR(two.losses[step] / one.losses[step], 1, 2e-2) << step;
    }
  }
}

/// Calls `use` on each of some tensor ranks with a replica that predicts.
void predict_on(int ranks, const std::function<nn::BlockList()>& blocks,
                const std::function<void(Replica&, int rank)>& use) {
  comm::ThreadConnector connector(std::chrono::seconds(30));
  comm::run_threads(ranks, [&](int rank) {
    at::set_num_threads(1);
    const comm::Groups groups({{.tensor = ranks}, rank, ranks},
                              [&](const std::vector<int>& all, const std::string& name) {
                                return connector.connect(rank, all, name);
                              });
    ReplicaOptions options;
    options.trains = false;
    Replica replica(blocks(), groups, options);
    replica.start();
    use(replica, rank);
  });
}

/// A model whose first layer has the gated delta rule.
models::DecoderConfig delta_config(const models::Small& size) {
  auto config = models::small_decoder(models::kQwen35Text, size);
  config.head_dim = 8;
  config.layer_types = {models::kLinearAttention, models::kFullAttention};
  config.linear_num_key_heads = 6;
  config.linear_num_value_heads = 12;
  config.linear_key_head_dim = 3;
  config.linear_value_head_dim = 5;
  return config;
}

TEST(TensorRanks, GiveTheLogitsOfOneDevice) {
  constexpr int64_t kLength = 1000;
  auto llama = models::small_llama({.ids = kIds, .width = 24, .heads = 6, .length = kLength});
  llama.num_key_value_heads = 3;
  const auto delta = delta_config({.ids = kIds, .width = 24, .heads = 6, .length = kLength});
  const auto gpt2 = models::small_gpt2({.ids = kIds, .width = 20, .heads = 5, .length = kLength});
  for (const models::LanguageModelConfig* config :
       {static_cast<const models::LanguageModelConfig*>(&llama),
        static_cast<const models::LanguageModelConfig*>(&delta),
        static_cast<const models::LanguageModelConfig*>(&gpt2)}) {
    std::map<int, std::vector<at::Tensor>> logits;  // [ranks][rank]
    for (const int ranks : {1, 2, 3}) {
      logits[ranks].resize(static_cast<size_t>(ranks));
      predict_on(
          ranks, [&] { return config->make_blocks(); },
          [&](Replica& replica, int rank) {
            const auto ids = at::arange(kLength, at::kLong).mul(7).remainder(kIds).view({1, -1});
            const MicroBatch batch{
                {{"input_ids", ids}, {"logits_to_keep", at::scalar_tensor(0, at::kLong)}},
                at::arange(1, at::kLong)};
            logits[ranks][static_cast<size_t>(rank)] =
                replica.forward(batch, nn::Mode::Predict).at("logits");
          });
      const auto& first = logits[ranks][0];
      EXPECT_EQ(first.sizes(), (std::vector<int64_t>{1, kLength, kIds}));
      for (const auto& other : logits[ranks]) EXPECT_TRUE(at::equal(other, first));
      EXPECT_LT((first - logits[1][0]).abs().max().item<double>(), 1e-5) << ranks;
    }
  }
}

TEST(TensorRanks, GoWithDataParallelism) {
  for (const std::string family : {"gpt2", "llama", "qwen3", "qwen3_5_text", "olmo2"}) {
    SCOPED_TRACE(family);
    Trial alone{.family = family, .mesh = {.tensor = 2}, .empties = false};
    const auto two = train(alone);
    Trial both{.family = family, .mesh = {.shard = 2, .tensor = 2}, .micro_batches = 1};
    both.empties = false;
    for (const int zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("zero {}", zero));
      both.zero = zero;
      if (family == "qwen3_5_text") {
        // Tensor ranks sum their parts of a norm's gradient first, which shows in weights near
        // zero.
        expect_close(train(both), two);
      } else if (zero < 2) {
        expect_same_bits(train(both), two);
      } else {
        EXPECT_EQ(train(both).losses, two.losses);
      }
    }
  }
}

TEST(TensorRanks, GoWithPipelines) {
  for (const std::string family :
       {"gpt2 untied", "llama", "qwen3", "qwen3_5_text", "olmo2", "gpt2"}) {
    SCOPED_TRACE(family);
    Trial alone{.family = family, .mesh = {.tensor = 2}};
    const auto two = train(alone);
    Trial both{.family = family, .mesh = {.pipeline = 2, .tensor = 2}};
    const auto four = train(both);
    if (family != "gpt2") {
      expect_same_bits(four, two);
    } else {
      expect_close(four, two);  // a tie is summed over stages
    }
  }
  Trial all{.mesh = {.pipeline = 2, .shard = 2, .tensor = 2}, .micro_batches = 2, .zero = 1};
  all.empties = false;
  Trial one{.micro_batches = 4, .empties = false};
  expect_close(train(all), train(one));
}

// What text generation asks for beforehand is what ranks keep, heads that several read included.
TEST(TensorRanks, KeepTheCacheThatIsTold) {
  const models::Small size{.ids = kIds, .width = 24, .heads = 6, .length = 16};
  auto llama = models::small_llama(size);
  llama.num_key_value_heads = 3;
  const auto delta = delta_config(size);
  const auto gpt2 = models::small_gpt2({.ids = kIds, .width = 20, .heads = 5, .length = 16});
  for (const models::LanguageModelConfig* config :
       {static_cast<const models::LanguageModelConfig*>(&llama),
        static_cast<const models::LanguageModelConfig*>(&delta),
        static_cast<const models::LanguageModelConfig*>(&gpt2)}) {
    for (const int ranks : {1, 2, 3, 4, 5}) {
      SCOPED_TRACE(fmt::format("{} on {}", config->family(), ranks));
      predict_on(
          ranks, [&] { return config->make_blocks(); },
          [&](Replica& replica, int rank) {
            MicroBatch batch{{{"input_ids", at::arange(8, at::kLong).view({2, 4})}},
                             at::arange(2, at::kLong)};
            batch.cache = std::make_shared<nn::KvCache>(4);
            replica.forward(batch, nn::Mode::Predict);
            EXPECT_EQ(static_cast<double>(batch.cache->bytes()),
                      models::cache_bytes(*config, 2, 4, at::kFloat, {rank, ranks}));
          });
    }
  }
}

/// Does not know the ranks.
class OwnBlock : public nn::Block {
 public:
  explicit OwnBlock(const char* name) : Block(name) {}
  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override { return in; }
};

class GridFamilies : public Families {};

// All meshes and kinds of numbers; ./dev test --all.
TEST_P(GridFamilies, DISABLED_WholeGridTrainsAsOneDevice) {
  const std::vector<std::pair<parallel::Degrees, int>> meshes{
      {{.tensor = 2}, 0},
      {{.tensor = 3}, 0},
      {{.tensor = 4}, 0},
      {{.shard = 2, .tensor = 2}, 0},
      {{.shard = 2, .tensor = 2}, 1},
      {{.replicate = 2, .shard = 1, .tensor = 2}, 1},
      {{.pipeline = 2, .tensor = 2}, 0},
      {{.pipeline = 2, .shard = 2, .tensor = 2}, 1}};
  // The classifier's gradients grow a hundredfold: from the 64th step on one device whose rate is
  // 1e-6 higher is as far from itself (4e-4 after 96) as ranks are.
  const int64_t steps = GetParam() == "classifier" ? 60 : 100;
  for (const bool drops : {true, false}) {
    Trial one{.family = GetParam(), .micro_batches = 4, .steps = steps, .drops = drops};
    one.empties = false;
    const auto alone = train(one);
    for (const auto& [mesh, zero] : meshes) {
      auto many = one;
      many.mesh = mesh;
      many.zero = zero;
      many.micro_batches = 4 / mesh.data();
      for (const auto& [sequence, recomputes] :
           {std::pair(false, false), {false, true}, {true, false}, {true, true}}) {
        many.sequence = sequence;
        many.recomputes = recomputes;
        SCOPED_TRACE(fmt::format("{}, zero {}{}, {}, {}",
                                 parallel::Mesh(mesh, 0, many.num_ranks()).to_text(), zero,
                                 sequence ? ", sequence" : "", drops ? "dropout" : "no dropout",
                                 recomputes ? "recomputed" : "kept"));
        expect_close(train(many), alone);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GridFamilies,
                         testing::Values("gpt2", "gpt2 untied", "llama", "olmo2", "bert",
                                         "classifier", "t5", "session"),
                         name_of_family);

TEST(TensorRanks, SayWhatDoesNotGo) {
  const auto refused = [](const std::string& family, int ranks) -> std::string {
    const parallel::Mesh mesh({.tensor = ranks}, 0, ranks);
    auto blocks = tensor_blocks(family);
    if (family == "own") {
      blocks.resize(1);
      for (const char* name : {"one", "two", "three"}) {
        blocks.push_back(std::make_shared<OwnBlock>(name));
      }
    }
    try {
      parallel::plan_run(nn::declare(blocks), mesh, Trial{}.options().parallelism);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused("gpt2", 5), "");
  EXPECT_EQ(refused("llama", 6), "");
  EXPECT_THAT(refused("own", 2),
              HasSubstr("tensor_parallel_size = 2 needs blocks that compute with "
                        "a part of their weights"));
  EXPECT_THAT(refused("own", 2), HasSubstr("3 of this model's 4 do not: one, two, three;"));
  EXPECT_THAT(refused("gpt2", 6), HasSubstr("transformer.h.0.attn.c_attn.weight 5, "));
  // Five heads go over five ranks, but six processes do not.
  EXPECT_THAT(refused("gpt2", 6), HasSubstr("and 3 more; try --tensor_parallel_size 3"));
}

}  // namespace
}  // namespace convoy::parallel::tensors
