#include <gtest/gtest.h>

#include <algorithm>

#include "convoy/parallel/run_plan/run_plan.h"
#include "convoy/planner/search/decision.h"
#include "tests/planner/testing.h"

// The cases of Hugging Face's guide to several GPUs ("Parallelization strategy"), asked of clusters
// that files describe: https://huggingface.co/docs/transformers/perf_train_gpu_many
namespace convoy::planner {
namespace {

/// A file's cluster of devices whose memory takes so many bytes of tensors.
Cluster described(int hosts, int devices, double memory, double inside_gb, double between_gb = 0) {
  return cluster_of(
      fmt::format("[cluster]\nhosts = {}\ndevices = {}\n[device]\nname = \"card\"\n"
                  "memory_gb = {}\nreserved_gb = 0\nfp32_tflops = 1\n"
                  "memory_gb_per_second = 1000\n[inside]\ngb_per_second = {}\n"
                  "microseconds = 5\n[between]\ngb_per_second = {}\n",
                  hosts, devices, memory / kGiga, inside_gb, between_gb));
}

SearchSpace search_space_of(const Cluster& cluster, int64_t global_batch) {
  SearchSpace out{.num_ranks = cluster.num_devices(), .global_batch = global_batch};
  if (cluster.num_hosts > 1) out.ranks_per_host = cluster.devices_per_host;
  return out;
}

/// Everything, tried.
SearchResult all_of(const PaperModel& model, const Cluster& cluster, SearchSpace space) {
  space.all = true;
  return search(model.numbers(), cluster, space);
}

/// What the fastest of a family takes that fits; of these one shares out in no other way.
double seconds_of(const SearchResult& found, const std::string& family, int data = 0) {
  double out = std::numeric_limits<double>::infinity();
  for (const auto& [split, prediction, simplicity] : found.tried) {
    const bool is_it = split.family() == family && (data == 0 || split.ranks.data() == data);
    if (is_it && prediction.fit != Fit::No) out = std::min(out, prediction.seconds);
  }
  return out;
}

double state_of(const PaperModel& model) {
  return 16 * model.weights();
}

// "Case 1: your model fits onto a single GPU": DDP or ZeRO, whichever is faster.
TEST(SeedCases, ModelThatFitsTrainsByTheFasterOfDdpAndZero) {
  const PaperModel model;
  for (const double inside : {100.0, 1.0}) {
    const auto cluster = described(1, 4, 10 * kGiga, inside);
    const auto found = all_of(model, cluster, search_space_of(cluster, 64));
    ASSERT_NE(found.best(), nullptr);
    EXPECT_EQ(found.best()->split.ranks.data(), 4) << found.best()->split.to_text();
    EXPECT_FALSE(found.best()->split.recompute);
    double fastest = std::numeric_limits<double>::infinity();
    for (const char* family : {"ddp", "zero 1", "zero 2", "zero 3"}) {
      fastest = std::min(fastest, seconds_of(found, family));
    }
    EXPECT_NEAR(found.best()->prediction.seconds, fastest, 1e-6 * fastest);
  }
}

// "Case 2: your model doesn't fit": with very fast links all three are similar, else PP is faster.
TEST(SeedCases, ModelTooLargeForADeviceIsSplit) {
  PaperModel model;
  model.layers = 16;
  const auto with = [&](double inside) {
    const auto cluster = described(1, 4, state_of(model) / 2, inside);
    auto found = all_of(model, cluster, search_space_of(cluster, 64));
    for (const auto& planned : found.tried) {
      if (planned.split.family() != "ddp") continue;
      EXPECT_EQ(planned.prediction.fit, Fit::No);
      EXPECT_GT(planned.prediction.short_bytes, 0);
    }
    return found;
  };
  const auto fast = with(300), slow = with(0.2);
  const auto zero = [](const SearchResult& found) {
    return std::min(
        {seconds_of(found, "zero 1"), seconds_of(found, "zero 2"), seconds_of(found, "zero 3")});
  };
  const double pipeline = seconds_of(fast, "pipeline", 1);
  EXPECT_NEAR(zero(fast) / pipeline, 1, 0.2);
  EXPECT_NEAR(seconds_of(fast, "tensor", 1) / pipeline, 1, 0.2);
  EXPECT_LT(1.3 * seconds_of(slow, "pipeline", 1), zero(slow));
  EXPECT_LT(1.3 * seconds_of(slow, "pipeline", 1), seconds_of(slow, "tensor", 1));
  EXPECT_GT(slow.best()->split.ranks.pipeline, 1) << slow.best()->split.to_text();
}

// "Case 3: the largest layer doesn't fit": no stage can hold it; tensor ranks, or ZeRO with what
// one device can do beside (recomputation, offload).
TEST(SeedCases, ALayerThatDoesNotFitIsCut) {
  PaperModel model;
  model.layers = 2;
  model.width = 2048;
  model.vocabulary = 1000;
  model.heads = 16;
  const double layer = 16 * 12.0 * static_cast<double>(model.width * model.width);
  const auto cluster = described(1, 16, layer * 0.95, 100);
  auto space = search_space_of(cluster, 16);
  space.offload = {parallel::Place::Cpu};
  space.base.gathers.prefetch = 0;  // of stage 3: one layer is gathered at a time
  const auto found = all_of(model, cluster, space);
  ASSERT_NE(found.best(), nullptr);
  EXPECT_TRUE(found.best()->split.ranks.tensor > 1 || found.best()->split.zero == 3)
      << found.best()->split.to_text();
  EXPECT_TRUE(std::isinf(seconds_of(found, "pipeline", 1)));
  const auto told = decision(model.numbers(), cluster, space, found).at(1);
  EXPECT_NE(told.find("layer."), std::string::npos) << told;
  EXPECT_NE(told.find("iB of state: no stage of a pipeline can hold it"), std::string::npos)
      << told;
  for (const char* family : {"tensor", "zero 3", "tensor x offload", "zero 3 x offload"}) {
    EXPECT_FALSE(std::isinf(seconds_of(found, family))) << family;
  }
  const auto again = std::find_if(found.tried.begin(), found.tried.end(), [](const auto& planned) {
    return planned.split.recompute && planned.prediction.fit != Fit::No;
  });
  EXPECT_NE(again, found.tried.end());
}

// "TP is almost always used within a single node": over hosts where that is simulated to be faster.
TEST(SeedCases, TensorRanksCrossHostsOnlyWhereThatIsFaster) {
  PaperModel model;
  model.layers = 4;
  model.vocabulary = 1000;
  for (const double between : {1000.0, 0.05}) {
    const auto cluster = described(2, 2, 100 * kGiga, 1000, between);
    // One row: nothing to share out but layers and stages.
    const auto found = all_of(model, cluster, search_space_of(cluster, 1));
    ASSERT_NE(found.best(), nullptr);
    const bool crosses = found.best()->split.ranks.tensor > cluster.devices_per_host;
    EXPECT_EQ(crosses, between > 1) << found.best()->split.to_text();
  }
}

// "Several nodes": with fast links ZeRO, or all three kinds at once; with slow links and little
// memory all of them with ZeRO 1.
TEST(SeedCases, SlowLinksBetweenHostsNeedAllKinds) {
  PaperModel model;
  model.layers = 16;
  const auto with = [&](double memory, double between) {
    const auto cluster = described(4, 4, memory, 300, between);
    return search(model.numbers(), cluster, search_space_of(cluster, 64));
  };
  const auto fast = with(state_of(model) / 2, 300);
  ASSERT_NE(fast.best(), nullptr);
  EXPECT_GT(fast.best()->split.zero, 0) << fast.best()->split.to_text();
  const auto slow = with(state_of(model) / 6, 0.1);
  ASSERT_NE(slow.best(), nullptr);
  const auto& split = slow.best()->split;
  EXPECT_GT(split.ranks.pipeline, 1) << split.to_text();
  EXPECT_GT(split.ranks.data(), 1) << split.to_text();
  EXPECT_LE(split.ranks.tensor, 4) << split.to_text();
  EXPECT_EQ(split.zero, 1) << split.to_text();
}

// "4x 6GB cards will be able to accommodate the same size as 1x 24GB card using naive MP, but a
// single 24GB card will complete the training faster."
TEST(SeedCases, FourCardsOfSixGigabytesHoldWhatOneOfTwentyFourHolds) {
  PaperModel model;
  model.layers = 40;
  model.width = 1600;
  model.vocabulary = 400;  // neither table nor head makes a stage larger
  model.heads = 16;
  model.length = 16;
  EXPECT_GT(state_of(model), 19e9);
  const auto numbers = model.numbers();
  const auto naive = &parallel::kNaive;
  const Parallelism alone{.rows = 8, .micro_batches = 1};
  const Parallelism stages{
      .ranks = {.pipeline = 4}, .rows = 8, .micro_batches = 1, .pipeline = {.schedule = naive}};
  const auto large = described(1, 1, 24 * kGiga, 25), small = described(1, 4, 6 * kGiga, 25);
  const auto one = predict(numbers, large, {}, alone), four = predict(numbers, small, {}, stages);
  EXPECT_NE(one.fit, Fit::No);
  EXPECT_NE(four.fit, Fit::No);
  EXPECT_EQ(predict(numbers, small, {}, alone).fit, Fit::No);
  // Computing alone takes as long; the copies between the cards make it slower.
  const double updates = one.updates - four.updates;
  EXPECT_GT(four.seconds + updates, one.seconds);
}

// "If you have 40GB cards and need to fit a 45GB model": weights of fp32, with AdamW 180 GB of
// state, which 4 x 40 GB do not hold; offloaded they do.
TEST(SeedCases, FortyFiveGigabytesOfWeightsFitFourCardsOffloaded) {
  PaperModel model;
  model.layers = 40;
  model.width = 4838;
  model.heads = 1;
  model.vocabulary = 1000;
  model.length = 16;
  EXPECT_NEAR(4 * model.weights(), 45e9, 0.1e9);
  EXPECT_NEAR(state_of(model), 180e9, 0.5e9);
  const auto cluster = described(1, 4, 40 * kGiga, 100);
  auto space = search_space_of(cluster, 4);
  const auto none = search(model.numbers(), cluster, space);
  EXPECT_EQ(none.best(), nullptr);
  EXPECT_GT(none.smallest()->prediction.short_bytes, 4 * kGiga);
  space.offload = {parallel::Place::Cpu};
  const auto found = search(model.numbers(), cluster, space);
  ASSERT_NE(found.best(), nullptr);
  EXPECT_TRUE(found.best()->split.offload.any());
  EXPECT_NE(to_toml(found.best()->split).find(" = \"cpu\""), std::string::npos);
  const auto told = decision(model.numbers(), cluster, space, found);
  EXPECT_NE(told.at(3).find("With all of the state on the devices nothing fits"), std::string::npos)
      << told.at(3);
}

// "mbs * chunks * dp_degree (8 * 32 * 4 = 1024)".
TEST(SeedCases, AStepHasAsManyRowsAsMicroBatchesOfAllRanks) {
  const auto splits = splits_of({.num_ranks = 8, .global_batch = 1024});
  const auto seeds = std::find_if(splits.begin(), splits.end(), [](const auto& split) {
    return split.ranks.data() == 4 && split.rows == 8 && split.ranks.pipeline == 2;
  });
  ASSERT_NE(seeds, splits.end());
  EXPECT_EQ(seeds->micro_batches, 32);
  EXPECT_NE(seeds->to_text().find("32 x 8 rows"), std::string::npos) << seeds->to_text();
  for (const auto& split : splits) EXPECT_EQ(split.global_batch(), 1024) << split.to_text();
}

/// Bytes of gradients that a rank of the first stage hands to sums, and of weights it gathers.
double bytes_moved(const PaperModel& model, const Parallelism& split) {
  const auto plan = parallel::plan_run(model.decl(), split.mesh(), split, {}, {}, false);
  const auto& stage = plan.stages.front();
  double out = 0;
  for (const auto& i : stage.step) {
    using parallel::Op;
    if (i.op != Op::Reduce && i.op != Op::ReduceScatter && i.op != Op::Gather) continue;
    const auto& bucket = stage.layout.buckets().at(static_cast<size_t>(i.bucket));
    out += 4.0 * static_cast<double>(bucket.all.length());
  }
  return out;
}

// "ZeRO stage 2 and 3 with PP: an additional reduce-scatter for every micro-batch": in bytes.
TEST(SeedCases, StagesTwoAndThreeOfZeroWithAPipelineMoveMore) {
  PaperModel model;
  const auto numbers = model.numbers();
  const auto cluster = described(1, 4, 100 * kGiga, 2);
  constexpr int64_t kMicroBatches = 8;
  const auto with = [](int64_t zero) {
    return Parallelism{.ranks = {.pipeline = 2, .shard = 2},
                       .rows = 1,
                       .micro_batches = kMicroBatches,
                       .zero = zero,
                       .bucket_bytes = 1 << 20};  // a layer each
  };
  // Stage 1 sums once and gathers once; stage 2 sums after each micro-batch; stage 3 gathers for
  // each forward and backward, too.
  const double once = bytes_moved(model, with(1)) / 2;
  EXPECT_NEAR(bytes_moved(model, with(2)) / once, kMicroBatches + 1, 0.5);
  EXPECT_GT(bytes_moved(model, with(3)) / once, 1.5 * kMicroBatches);
  EXPECT_LT(1.2 * predict(numbers, cluster, {}, with(1)).seconds,
            predict(numbers, cluster, {}, with(2)).seconds);
  EXPECT_LT(1.2 * predict(numbers, cluster, {}, with(1)).seconds,
            predict(numbers, cluster, {}, with(3)).seconds);
}

}  // namespace
}  // namespace convoy::planner
