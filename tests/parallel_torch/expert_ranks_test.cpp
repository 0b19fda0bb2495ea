#include <fmt/format.h>
#include <gmock/gmock.h>

#include "convoy/nn/declare.h"
#include "convoy/parallel/run_plan/run_plan.h"
#include "tests/parallel_torch/tensor_testing.h"

// Ranks that share out experts train as data-parallel ranks do that each have all.
namespace convoy::parallel::tensors {
namespace {

using testing::HasSubstr;

models::DecoderConfig experts_config(const std::string& family, int64_t experts = 4) {
  const models::Small size{.ids = kIds, .width = 32, .heads = 4, .length = 16};
  const bool stacked = family == "gpt_oss";
  auto config = models::small_decoder(stacked                 ? models::kGptOss
                                      : family == "qwen2_moe" ? models::kQwen2Moe
                                                              : models::kMixtral,
                                      size);
  config.head_dim = 8;
  config.num_experts = experts;
  config.num_experts_per_tok = 2;
  config.moe_intermediate_size = 16;
  config.shared_expert_intermediate_size = 16;
  config.sliding_window = stacked ? 4 : 0;
  config.use_sliding_window = stacked;
  config.attention_dropout = 0.2;
  return config;
}

Trial of_experts(const std::string& family, const Degrees& mesh, int64_t micro_batches = 1) {
  Trial out{.family = family, .mesh = mesh, .micro_batches = micro_batches, .steps = 4};
  out.empties = false;
  out.change = [family](const nn::BlockList&) { return experts_config(family).make_blocks(); };
  return out;
}

const std::vector<std::string> kWithExperts{"mixtral", "gpt_oss", "qwen2_moe"};

/// Expects the bits of data-parallel ranks; of stacks, whose rows a processor may add in another
/// order where they lie elsewhere in memory, the same to rounding.
void expect_same(const std::string& family, const TensorOutcome& dealt, const TensorOutcome& data) {
  if (family == "gpt_oss") return expect_close(dealt, data);
  expect_same_bits(dealt, data);
}

TEST(ExpertRanks, HaveTheBitsOfDataParallelRanks) {
  for (const auto& family : kWithExperts) {
    for (const int64_t ranks : {2, 4}) {
      const auto data = train(of_experts(family, {.shard = ranks}));
      for (const int zero : {0, 1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} over {} ranks, zero {}", family, ranks, zero));
        auto trial = of_experts(family, {.expert = ranks});
        trial.zero = zero;
        expect_same(family, train(trial), data);
      }
    }
  }
}

TEST(ExpertRanks, GoBesideDataRanks) {
  for (const std::string family : {"mixtral", "gpt_oss"}) {
    const auto data = train(of_experts(family, {.shard = 4}, 2));
    for (const auto& mesh : {Degrees{.shard = 2, .expert = 2}, Degrees{.replicate = 2, .expert = 2},
                             Degrees{.expert = 4}}) {
      for (const int zero : {0, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} over {}, zero {}", family, Mesh(mesh, 0, 4).to_text(), zero));
        auto trial = of_experts(family, mesh, 2);
        trial.zero = zero;
        expect_close(train(trial), data);
      }
    }
  }
}

TEST(ExpertRanks, GoBesideStagesAndContextRanks) {
  for (const auto& family : kWithExperts) {
    for (const std::string schedule : {"1f1b", "zero_bubble"}) {
      SCOPED_TRACE(family + " " + schedule);
      auto data = of_experts(family, {.pipeline = 2, .shard = 2}, 3);
      auto trial = of_experts(family, {.pipeline = 2, .expert = 2}, 3);
      data.schedule = trial.schedule = schedule;
      expect_close(train(trial), train(data));
    }
  }
  expect_close(train(of_experts("mixtral", {.expert = 2, .context = 2})),
               train(of_experts("mixtral", {.shard = 2, .context = 2})));
}

TEST(ExpertRanks, KeepTheirBitsWhereActivationsAreComputedAgain) {
  for (const auto& family : kWithExperts) {
    SCOPED_TRACE(family);
    auto trial = of_experts(family, {.expert = 2}, 2);
    const auto kept = train(trial);
    trial.recomputes = true;
    expect_same_bits(train(trial), kept);
  }
}

TEST(ExpertRanks, JoinTheRowsOfAll) {
  for (const auto& family : kWithExperts) {
    SCOPED_TRACE(family);
    auto trial = of_experts(family, {.expert = 2});
    const auto apart = train(trial);
    trial.joined = true;
    expect_close(train(trial), apart);
  }
}

TEST(ExpertRanks, ComputeForOthersWithoutRowsOfTheirOwn) {
  for (const auto& family : kWithExperts) {
    for (const bool recomputes : {false, true}) {
      for (const int zero : {0, 3}) {
        SCOPED_TRACE(fmt::format("{} zero {}", family, zero));
        auto data = of_experts(family, {.shard = 2});
        data.rows_of = [](int64_t step, int64_t rank) { return step % 2 == rank ? 0 : 3; };
        auto trial = data;
        trial.mesh = {.expert = 2};
        trial.zero = zero;
        trial.recomputes = recomputes;
        expect_same(family, train(trial), train(data));
      }
    }
  }
}

TEST(ExpertRanks, WithoutRowsServeStagesToo) {
  for (const std::string schedule : {"1f1b", "zero_bubble"}) {
    SCOPED_TRACE(schedule);
    auto data = of_experts("mixtral", {.pipeline = 2, .shard = 2}, 3);
    data.schedule = schedule;
    data.rows_of = [](int64_t step, int64_t rank) { return step % 2 == rank ? 0 : 3; };
    auto trial = data;
    trial.mesh = {.pipeline = 2, .expert = 2};
    expect_close(train(trial), train(data));
  }
}

TEST(ExpertRanks, TrainInBf16) {
  for (const auto& family : kWithExperts) {
    for (const int zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} zero {}", family, zero));
      auto data = of_experts(family, {.shard = 2});
      data.dtype = at::kBFloat16;
      auto trial = data;
      trial.mesh = {.expert = 2};
      trial.zero = zero;
      if (family == "gpt_oss") {
        expect_close(train(trial), train(data), {1e-3, 2e-2, 2e-2});
      } else {
        expect_same_bits(train(trial), train(data));
      }
    }
  }
}

std::string refusal(const nn::BlockList& blocks, const Degrees& degrees,
                    Parallelism parallelism = {}, const StepFacts& facts = {}) {
  const auto ranks = static_cast<int>(degrees.product());
  try {
    plan_run(nn::declare(blocks), Mesh(degrees, 0, ranks), parallelism, facts);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(ExpertRanks, SayWhatTheyDoNotTake) {
  const auto four = experts_config("mixtral").make_blocks();
  EXPECT_THAT(refusal(four, {.expert = 3}),
              HasSubstr("expert_parallel_size = 3 does not divide the 4 experts of a layer, of "
                        "which each rank has as many; try --expert_parallel_size 2"));
  EXPECT_THAT(refusal(experts_config("mixtral", 5).make_blocks(), {.expert = 2}),
              HasSubstr("does not divide the 5 experts of a layer, of which each rank has as many; "
                        "try other ways to use the ranks"));
  EXPECT_THAT(refusal(four, {.expert = 8}), HasSubstr("try --expert_parallel_size 4"));
  EXPECT_THAT(refusal(tensor_blocks("llama"), {.expert = 2}),
              HasSubstr("expert_parallel_size = 2 deals out the experts of a layer, and this model "
                        "has none (docs/experts.md names the families that have); try without it"));
  EXPECT_THAT(refusal(four, {.expert = 2, .tensor = 2}),
              HasSubstr("expert_parallel_size = 2 does not go with tensor_parallel_size = 2; try "
                        "--expert_parallel_size 4 alone"));
  EXPECT_THAT(refusal(four, {.expert = 2}, {.offload = {.optimizer = Place::Disk}}),
              HasSubstr("expert_parallel_size = 2 does not go with offload"));
  EXPECT_THAT(refusal(four, {.expert = 2}, {}, {.shares_weights = true}),
              HasSubstr("DataParallel's threads"));
}

// Of each element of the model one rank is the owner, whatever is sharded.
TEST(ExpertRanks, OwnEachElementOnce) {
  for (const auto& family : kWithExperts) {
    const auto model = nn::declare(experts_config(family).make_blocks());
    for (const auto& degrees :
         {Degrees{.expert = 2}, Degrees{.shard = 2, .expert = 4, .context = 2},
          Degrees{.replicate = 2, .shard = 2, .expert = 2}}) {
      std::map<std::string, std::vector<int>> owners;
      const auto ranks = static_cast<int>(degrees.product());
      for (int rank = 0; rank < ranks; ++rank) {
        const Mesh mesh(degrees, rank, ranks);
        if (mesh.place(Axis::Replicate) > 0) continue;
        const LayoutOptions options{
            .parallelism = {.zero = 3, .bucket_bytes = 2000},
            .num_parts = mesh.degree(kState),
            .num_context_ranks = mesh.degree(Axis::Context),
            .tensor = {0, 1, mesh.place(Axis::Expert), mesh.degree(Axis::Expert)}};
        const auto layout = layout_of(model, options);
        const auto units = units_of(model, /*experts_apart=*/true);
        for (const auto& piece : layout.pieces(mesh.place(kState))) {
          const auto index =
              units.units[static_cast<size_t>(piece.unit)].params[static_cast<size_t>(piece.param)];
          const auto& param = model.params[static_cast<size_t>(index)];
          auto& counts = owners[param.name];
          counts.resize(static_cast<size_t>(num_elements(param.shape)));
          each_row(piece, [&](const Piece& row) {
            for (int64_t i = 0; i < row.length; ++i) ++counts[static_cast<size_t>(row.begin + i)];
          });
        }
        EXPECT_LT(layout.kept(Kind::Weights), layout_of(model, {}).kept(Kind::Weights));
      }
      ASSERT_EQ(owners.size(), model.params.size());
      for (const auto& [name, counts] : owners) {
        EXPECT_EQ(std::ranges::count(counts, 1), std::ssize(counts)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace convoy::parallel::tensors
