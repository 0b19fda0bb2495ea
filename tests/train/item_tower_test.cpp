#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/train/testing.h"

// A session model with an item tower trains to the same numbers in every layout.
namespace convoy::train {
namespace {

constexpr int64_t kTowerItems = 120;
constexpr size_t kTowerSteps = 12;

struct TowerCase {
  std::string name;
  const char* body;
  std::string loss = "cross_entropy";
  int64_t num_negatives = 0;
  double id_dropout = 0;
  double smoothing = 0;
};

/// Categories and numbers of the items; the last five have no row that training saw.
std::shared_ptr<models::ItemTowerValues> values_of(int64_t items) {
  auto out = std::make_shared<models::ItemTowerValues>();
  const auto ids = at::arange(items, at::kLong);
  out->categories["genre"] = at::stack({1 + ids % 6, (ids % 4) * (ids % 2)}, 1);
  out->categories["brand"] = (1 + ids % 17).unsqueeze(1);
  out->numbers = at::stack({(ids % 10).to(at::kFloat) / 5 - 1, (ids % 3 == 0).to(at::kFloat)}, 1);
  for (auto& [name, values] : out->categories) values[0].zero_();
  out->numbers[0].zero_();
  out->trained = ids < items - 5;
  return out;
}

class ItemTowerLayouts : public testing::TestWithParam<TowerCase> {
 protected:
  Outcome train(const options::TrainingArguments& arguments, const job::Job& job) const {
    const auto& [name, body, loss, num_negatives, id_dropout, smoothing] = GetParam();
    auto config =
        models::small_session({.ids = kTowerItems, .width = 16, .heads = 2, .length = 12});
    config.body = body;
    config.loss = loss;
    config.label_smoothing_factor = smoothing;
    config.item_embedding_dim = 8;
    config.dropout = 0.1;
    config.item_id_dropout = id_dropout;
    config.item_tower = {{"genre", 7}, {"brand", 18}, {"price", 0, 1}};
    config.item_values = values_of(kTowerItems);
    if (name == "in_batch") config.negative_sampling = models::kInBatch;
    if (config.has_own_negatives()) {
      config.n_negatives = num_negatives;
    } else if (num_negatives > 0) {
      config.sampled_softmax = true;
      config.max_n_samples = num_negatives;
    }
    // Items of the data are those that training sees.
    return outcome_of([config] { return models::make_session_model(config); },
                      random_sessions(203, kTowerItems - 5, 12), arguments, job);
  }

  static options::TrainingArguments arguments(int64_t per_device, int64_t accumulation,
                                              int64_t zero = 0) {
    auto out = short_run(per_device, accumulation, static_cast<int64_t>(kTowerSteps));
    out.learning_rate = 5e-3;
    out.parallel.parallelism.zero = zero;
    return out;
  }
};

TEST_P(ItemTowerLayouts, AreOneDeviceThatAccumulatesBitForBit) {
  expect_bits_of_one_device(
      [this](const auto& arguments, const auto& job) { return train(arguments, job); }, arguments,
      {0, 1, 2, 3}, kTowerSteps);
}

TEST_P(ItemTowerLayouts, TrainThroughStages) {
  const auto alone = train(arguments(10, 4), one_device());
  auto staged = arguments(10, 4);
  staged.parallel.parallelism.ranks.pipeline = 2;
  job::Job job = one_device();
  job.strategy = "pipeline";
  job.devices.assign(2, at::kCPU);
  const auto outcome = train(staged, job);
  for (size_t i = 0; i < kTowerSteps; ++i) {
    EXPECT_NEAR(outcome.losses[i] / alone.losses[i], 1, 1e-6) << "step " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ItemTowerLayouts,
                         testing::Values(TowerCase{"all", "sasrec"},
                                         TowerCase{"smoothed", "gpt2", "cross_entropy", 0, 0.2,
                                                   0.1},
                                         TowerCase{"masked", "bert", "cross_entropy", 0, 0.3},
                                         TowerCase{"sampled", "gpt2", "cross_entropy", 30, 0.2},
                                         TowerCase{"in_batch", "gpt2", "cross_entropy", 30, 0.2}),
                         [](const auto& info) { return std::string(info.param.name); });

std::vector<TowerCase> towers_of_losses() {
  std::vector<TowerCase> out;
  for (const auto& loss : models::losses_with_negatives()) {
    out.push_back({loss, "sasrec", loss, 20, 0.2});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Losses, ItemTowerLayouts, testing::ValuesIn(towers_of_losses()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace convoy::train
