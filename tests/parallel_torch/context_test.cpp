#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "convoy/comm/echo/echo_engine.h"
#include "convoy/nn/attention/attention.h"
#include "tests/parallel_torch/tensor_testing.h"

// Ranks that share out the positions of rows train as one device does.
namespace convoy::parallel::tensors {
namespace {

using testing::HasSubstr;

struct Case {
  bool causal, masks, drops;
  int64_t rows, length, heads, key_heads;
};

/// Attention's result and the gradients of q, k and v, on so many context ranks.
std::vector<at::Tensor> attend(const Case& c, int ranks, at::ScalarType dtype) {
  constexpr int64_t E = 8;
  const auto made = [&](int64_t heads, double step) {
    const auto numbers = at::arange(c.rows * heads * c.length * E, at::kFloat);
    return at::sin(numbers * step).view({c.rows, heads, c.length, E}).to(dtype);
  };
  std::vector<at::Tensor> all(4);
  std::mutex mutex;
  comm::ThreadConnector connector(std::chrono::seconds(30));
  comm::run_threads(ranks, [&](int rank) {
    at::set_num_threads(1);
    std::vector<int> numbers(static_cast<size_t>(ranks));
    std::iota(numbers.begin(), numbers.end(), 0);
    const auto group = ranks == 1 ? comm::Group() : connector.connect(rank, numbers, "context");
    const nn::ContextRanks positions(group, c.length);
    nn::AttentionOptions options{.causal = c.causal, .max_length = c.length};
    options.ranks = positions;
    options.name = "test.attention";
    options.dropout = c.drops ? 0.3 : 0;
    if (c.masks) {
      options.key_mask = at::arange(c.length).unsqueeze(0) <
                         c.length - 3 * at::arange(c.rows, at::kLong).view({-1, 1});
    }
    nn::Context context{.seed = 5, .samples = at::arange(7, 7 + c.rows, at::kLong)};
    std::vector<at::Tensor> in;
    for (const auto& [heads, step] :
         {std::pair(c.heads, 0.37), {c.key_heads, 0.53}, {c.key_heads, 0.71}}) {
      in.push_back(positions.own(made(heads, step), 2).contiguous().requires_grad_(true));
    }
    const auto out = nn::attention(in[0], in[1], in[2], options, context);
    out.backward(positions.own(made(c.heads, 0.91), 2));
    const std::lock_guard lock(mutex);
    const auto put = [&](size_t which, const at::Tensor& values) {
      if (!all[which].defined()) {
        auto sizes = values.sizes().vec();
        sizes[2] = c.length;
        all[which] = at::full(sizes, NAN);
      }
      all[which].index_copy_(2, positions.positions(at::kCPU), values.detach().to(at::kFloat));
    };
    put(0, out);
    for (size_t i = 0; i < 3; ++i) put(i + 1, in[i].grad());
  });
  return all;
}

TEST(ContextRanks, ShareOutEachPositionOnceAndAsManyPairs) {
  for (const int64_t length : {0, 1, 3, 8, 21, 1024}) {
    for (const int size : {1, 2, 3, 4}) {
      SCOPED_TRACE(fmt::format("{} positions, {} ranks", length, size));
      std::vector<int64_t> all, pairs;
      for (int rank = 0; rank < size; ++rank) {
        const nn::ContextRanks ranks(comm::echo_group(rank, size), length);
        const auto own = ranks.positions(at::kCPU);
        EXPECT_EQ(own.numel(), ranks.size());
        EXPECT_LE(std::abs(own.numel() * size - length), size - 1) << "as equal as can be";
        const auto* first = own.const_data_ptr<int64_t>();
        all.insert(all.end(), first, first + own.numel());
        pairs.push_back((own + 1).sum().item<int64_t>());
      }
      std::sort(all.begin(), all.end());
      std::vector<int64_t> each(static_cast<size_t>(length));
      std::iota(each.begin(), each.end(), 0);
      EXPECT_EQ(all, each);
      if (length % (2 * size) == 0) {
        EXPECT_THAT(pairs, testing::Each(pairs[0]));
      }
    }
  }
}

TEST(RingAttention, IsThatOfOneDevice) {
  for (const Case& c : std::vector<Case>{{true, false, false, 2, 21, 4, 4},
                                         {true, false, false, 2, 21, 4, 2},
                                         {false, false, false, 2, 21, 4, 4},
                                         {true, true, false, 3, 21, 4, 2},
                                         {false, true, false, 3, 21, 4, 4},
                                         {true, false, true, 2, 21, 4, 2},
                                         {false, true, true, 3, 21, 4, 4},
                                         {true, true, true, 2, 3, 2, 2},
                                         {true, true, true, 1, 700, 4, 4}}) {
    const auto one = attend(c, 1, at::kFloat);
    for (const int ranks : {2, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks, causal {}, masks {}, drops {}, {} x {}, {} of {} heads",
                               ranks, c.causal, c.masks, c.drops, c.rows, c.length, c.key_heads,
                               c.heads));
      const auto shared = attend(c, ranks, at::kFloat);
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_LT(distance(shared[i], one[i]), 2e-6) << "result " << i;
      }
    }
  }
  const Case half{true, false, false, 2, 21, 4, 2};
  const auto one = attend(half, 1, at::kBFloat16), two = attend(half, 2, at::kBFloat16);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_LT(distance(two[i], one[i]), 2e-2);
}

class ContextFamilies : public testing::TestWithParam<std::string> {};

TEST_P(ContextFamilies, TrainAsOnOneDevice) {
  Trial one{.family = GetParam(), .steps = 10};
  one.evaluates = true;
  const auto alone = train(one);
  for (const auto& [mesh, sequence] : {std::pair(parallel::Degrees{.context = 2}, false),
                                       {{.context = 3}, false},
                                       {{.context = 2, .tensor = 2}, false},
                                       {{.context = 2, .tensor = 2}, true}}) {
    auto many = one;
    many.mesh = mesh;
    many.sequence = sequence;
    SCOPED_TRACE(fmt::format("{}{}", parallel::Mesh(mesh, 0, many.num_ranks()).to_text(),
                             sequence ? ", sequence" : ""));
    const auto shared = train(many);
    expect_close(shared, alone);
    ASSERT_EQ(shared.evaluated.size(), alone.evaluated.size());
    for (const auto& [name, value] : alone.evaluated) {
      EXPECT_TRUE(at::allclose(shared.evaluated.at(name), value, 1e-5)) << name;
    }
  }
}

TEST_P(ContextFamilies, TrainInBf16) {
  Trial trial{.family = GetParam(), .dtype = at::kBFloat16};
  const auto one = train(trial);
  trial.mesh.context = 2;
  expect_close(train(trial), one, {.first_loss = 1e-3, .gradient = 4e-2, .loss = 2e-2});
}

TEST_P(ContextFamilies, KeepTheirBitsWhereActivationsAreComputedAgain) {
  Trial trial{.family = GetParam(), .mesh = {.context = 2}};
  const auto kept = train(trial);
  trial.recomputes = true;
  expect_same_bits(train(trial), kept);
}

TEST_P(ContextFamilies, TrainRowsOfFewerPositionsThanStretches) {
  Trial one{.family = GetParam(), .empties = false, .rows = 2, .length = 3};
  auto many = one;
  many.mesh.context = 3;
  expect_close(train(many), train(one));
}

TEST_P(ContextFamilies, GoWithDataRanksAndPipelines) {
  Trial one{.family = GetParam(), .micro_batches = 4, .empties = false};
  const auto alone = train(one);
  for (const int zero : {0, 1, 2, 3}) {
    SCOPED_TRACE(fmt::format("zero {}", zero));
    Trial many{.family = GetParam(), .mesh = {.shard = 2, .context = 2}, .zero = zero};
    many.empties = false;
    expect_close(train(many), alone);
  }
  one.micro_batches = 2;
  Trial staged{.family = GetParam(), .mesh = {.pipeline = 2, .context = 2}, .empties = false};
  expect_close(train(staged), train(one));
}

INSTANTIATE_TEST_SUITE_P(All, ContextFamilies, testing::Values("gpt2", "llama", "bert"),
                         [](const auto& info) { return info.param; });

TEST(ContextParallel, SkipsTheStepsThatOneDeviceSkips) {
  Trial trial{.mesh = {.context = 2}, .steps = 3, .dtype = at::kHalf};
  trial.loss_scales = {1, std::exp2(30), 64};
  EXPECT_EQ(train(trial).skipped, (std::vector<bool>{false, true, false}));
}

// All families, meshes and ways to draw and keep; ./dev test --all.
TEST(ContextParallel, DISABLED_WholeGridTrainsAsOneDevice) {
  struct Many {
    parallel::Degrees mesh;
    int zero = 0;
    bool sequence = false;
  };
  const std::vector<Many> all{{{.context = 2}},
                              {{.context = 3}},
                              {{.context = 4}, 2},
                              {{.shard = 2, .context = 2}, 1},
                              {{.shard = 2, .context = 2}, 3},
                              {{.replicate = 2, .shard = 1, .context = 2}, 1},
                              {{.context = 2, .tensor = 2}},
                              {{.context = 2, .tensor = 2}, 1, true},
                              {{.context = 3, .tensor = 2}, 0, true},
                              {{.pipeline = 2, .context = 2}},
                              {{.pipeline = 2, .shard = 2, .context = 2}, 1},
                              {{.pipeline = 2, .context = 2, .tensor = 2}, 1, true}};
  for (const std::string family : {"gpt2", "gpt2 untied", "llama", "bert"}) {
    for (const bool drops : {true, false}) {
      Trial one{.family = family, .micro_batches = 4, .steps = 20, .drops = drops};
      one.empties = false;
      const auto alone = train(one);
      for (const auto& [mesh, zero, sequence] : all) {
        for (const bool recomputes : {false, true}) {
          auto many = one;
          many.mesh = mesh;
          many.zero = zero;
          many.sequence = sequence;
          many.recomputes = recomputes;
          many.micro_batches = 4 / mesh.data();
          SCOPED_TRACE(fmt::format("{}, {}, zero {}{}, {}, {}", family,
                                   parallel::Mesh(mesh, 0, many.num_ranks()).to_text(), zero,
                                   sequence ? ", sequence" : "", drops ? "dropout" : "no dropout",
                                   recomputes ? "recomputed" : "kept"));
          expect_close(train(many), alone);
        }
      }
    }
  }
}

TEST(ContextParallel, SaysWhichModelsDoNotGo) {
  const parallel::Degrees mesh{.context = 2};
  for (const auto& [family, block] : std::map<std::string, std::string>{
           {"t5", "shared"}, {"session", "input"}, {"classifier", "embeddings"}}) {
    try {
      parallel::plan_run(nn::declare(tensor_blocks(family)), parallel::Mesh(mesh, 0, 2),
                         Trial{}.options().parallelism);
      FAIL() << family;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("context_parallel_size = 2 needs blocks that compute with "
                            "some positions of each row"));
      EXPECT_THAT(error.what(), HasSubstr(" do not: " + block));
    }
  }
}

}  // namespace
}  // namespace convoy::parallel::tensors
