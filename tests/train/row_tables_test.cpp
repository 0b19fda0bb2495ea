#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/planner/estimate/estimate.h"
#include "tests/train/testing.h"

// A table of items that ranks keep by rows is the table that each of them keeps whole.
namespace convoy::train::row_tables {
namespace {

using testing::HasSubstr;

constexpr int64_t kItems = 301, kLength = 10;
constexpr size_t kSteps = 12;

parallel::ModelFactory model(const std::function<void(models::SessionConfig&)>& change = {}) {
  auto config = models::small_session({.ids = kItems, .width = 24, .heads = 3, .length = kLength});
  config.features.push_back({"kind", true, 7});
  config.sampled_softmax = true;
  config.max_n_samples = 25;
  config.dropout = 0.2;
  if (change) change(config);
  return [config] { return models::make_session_model(config); };
}

options::TrainingArguments by_rows(int64_t per_device, int64_t accumulation, bool rows = true) {
  auto out = short_run(per_device, accumulation, static_cast<int64_t>(kSteps));
  out.learning_rate = 5e-3;
  out.weight_decay = 0.1;
  out.max_grad_norm = 0.5;
  out.parallel.parallelism.row_tables = rows;
  return out;
}

std::shared_ptr<dataset::Dataset> sessions(int64_t rows = 203) {
  return random_sessions(rows, kItems, kLength);
}

Outcome on_two(const parallel::ModelFactory& factory, const options::TrainingArguments& arguments) {
  return outcome_of_ranks(
      2, [&](const job::Job& job) { return outcome_of(factory, sessions(), arguments, job); });
}

void expect_near(const Outcome& rows, const Outcome& dense) {
  ASSERT_EQ(rows.losses.size(), dense.losses.size());
  for (size_t i = 0; i < dense.losses.size(); ++i) {
    EXPECT_NEAR(rows.losses[i] / dense.losses[i], 1, 1e-5) << "step " << i + 1;
    EXPECT_NEAR(rows.norms[i] / dense.norms[i], 1, 1e-4) << "step " << i + 1;
  }
  // Decay that is made up for is rounded otherwise, and AdamW enlarges that where a gradient is
  // about 0: on processors with AVX2 alone to 1.4e-6, on others below 1e-6.
  const auto difference = (rows.weights - dense.weights).abs().max();
  EXPECT_LT((difference / dense.weights.abs().max()).item<double>(), 3e-6);
}

TEST(RowTables, SeveralRanksEqualAccumulationBitForBit) {
  const auto alone = outcome_of(model(), sessions(), by_rows(8, 2), one_device());
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  expect_same_bits(alone, outcome_of(model(), sessions(), by_rows(8, 1), replicas(2)), kSteps);
  for (const int64_t zero : {0, 1, 2, 3}) {
    SCOPED_TRACE(zero);
    auto arguments = by_rows(8, 1);
    arguments.parallel.parallelism.zero = zero;
    expect_same_bits(alone, on_two(model(), arguments), kSteps);
  }
  auto again = by_rows(8, 2);
  again.gradient_checkpointing = true;
  expect_same_bits(alone, outcome_of(model(), sessions(), again, one_device()), kSteps);
}

TEST(RowTables, ThreeRanksAndReplicasHaveTheBitsOfOneDevice) {
  const auto factory = model([](auto& config) {
    config.stochastic_swap_noise = 0.2;
    config.swap_values = {{"items", at::arange(1, kItems, at::kLong)},
                          {"kind", at::arange(1, 7, at::kLong)}};
  });
  const auto alone = outcome_of(factory, sessions(), by_rows(8, 3), one_device());
  expect_same_bits(alone, outcome_of(factory, sessions(), by_rows(8, 1), replicas(3)), kSteps);
  const auto ranks = outcome_of_ranks(
      3, [&](const job::Job& job) { return outcome_of(factory, sessions(), by_rows(8, 1), job); });
  expect_same_bits(alone, ranks, kSteps);
}

TEST(RowTables, AreTheTablesThatEachRankKeepsWhole) {
  for (const char* masking : {"clm", "mlm"}) {
    SCOPED_TRACE(masking);
    const auto factory = model([&](auto& config) {
      config.body = std::string(masking) == "clm" ? "gpt2" : "bert";
      config.negative_sampling = "log_uniform";
    });
    expect_near(outcome_of(factory, sessions(), by_rows(8, 2), one_device()),
                outcome_of(factory, sessions(), by_rows(8, 2, false), one_device()));
    expect_near(on_two(factory, by_rows(8, 1)), on_two(factory, by_rows(8, 1, false)));
  }
}

TEST(RowTables, GoWithItemsThatEachTargetCompetesWith) {
  std::vector<std::pair<std::string, std::string>> cases;
  for (const auto& loss : models::losses_with_negatives()) cases.emplace_back("gpt2", loss);
  cases.emplace_back("bert", cases.front().second);
  for (const auto& [body, loss] : cases) {
    SCOPED_TRACE(fmt::format("{} {}", body, loss));
    const auto factory = model([&, body = body, loss = loss](auto& config) {
      config.body = body;
      config.sampled_softmax = false;
      config.loss = loss;
      config.n_negatives = 6;
    });
    const auto alone = outcome_of(factory, sessions(), by_rows(8, 2), one_device());
    if (loss == "gbce") {
      EXPECT_LT(alone.losses.back(), alone.losses.front());
    }
    expect_same_bits(alone, on_two(factory, by_rows(8, 1)), kSteps);
    expect_near(alone, outcome_of(factory, sessions(), by_rows(8, 2, false), one_device()));
  }
}

TEST(RowTables, HaveTheTargetsOfOtherRanks) {
  for (const auto& [body, masking] : {std::pair{"gpt2", "clm"}, {"xlnet", "plm"}}) {
    SCOPED_TRACE(body);
    const auto factory = model([&, body = body, masking = masking](auto& config) {
      config.body = body;
      config.masking = masking;
      config.negative_sampling = models::kInBatch;
      config.event_weights.column = "price";
    });
    auto rows = by_rows(8, 2), dense = by_rows(8, 2, false), two = by_rows(8, 1);
    rows.weight_decay = dense.weight_decay = two.weight_decay =
        0;  // no rounding of what is made up
    const auto alone = outcome_of(factory, sessions(), rows, one_device());
    expect_same_bits(alone, on_two(factory, two), kSteps);
    expect_same_bits(alone, outcome_of(factory, sessions(), dense, one_device()), kSteps);
  }
}

TEST(RowTables, GoWithWeightsOfTargets) {
  const auto factory = model([](auto& config) { config.event_weights.column = "price"; });
  const auto alone = outcome_of(factory, sessions(), by_rows(8, 2), one_device());
  expect_same_bits(alone, on_two(factory, by_rows(8, 1)), kSteps);
  expect_near(alone, outcome_of(factory, sessions(), by_rows(8, 2, false), one_device()));
}

TEST(RowTables, KnowTheRowsOfAnyInput) {
  const auto factory = model([&](auto& config) {
    config.stochastic_swap_noise = 0.2;
    config.swap_values = {{"items", at::arange(1, kItems, at::kLong)},
                          {"kind", at::arange(1, 7, at::kLong)}};
    config.targets = {{"even", true, 0.5}};
    config.next_item_weight = 0.7;
    config.item_embedding_dim = 16;
  });
  // Without decay nothing that is made up for is rounded otherwise.
  auto rows = by_rows(8, 2), dense = by_rows(8, 2, false);
  rows.weight_decay = dense.weight_decay = 0;
  expect_same_bits(outcome_of(factory, sessions(), rows, one_device()),
                   outcome_of(factory, sessions(), dense, one_device()), kSteps);
}

TEST(RowTables, GoWithHalfPrecision) {
  for (const bool fp16 : {false, true}) {
    auto rows = by_rows(8, 2), dense = by_rows(8, 2, false);
    for (auto* arguments : {&rows, &dense}) (fp16 ? arguments->fp16 : arguments->bf16) = true;
    const auto alone = outcome_of(model(), sessions(), rows, one_device());
    const auto whole = outcome_of(model(), sessions(), dense, one_device());
    EXPECT_EQ(alone.skipped_steps, whole.skipped_steps);
    EXPECT_NEAR(alone.losses.back() / whole.losses.back(), 1, 1e-2);
    auto two = rows;
    two.gradient_accumulation_steps = 1;
    expect_same_bits(alone, on_two(model(), two), alone.losses.size());
  }
}

/// The ranks of all targets, by how often.
class Ranks : public Scorer {
 public:
  void add(const nn::Bundle& out) override {
    const auto& ranks = out.at("target_rank");
    counts_.index_add_(0, ranks, at::ones_like(ranks));
  }
  void reduce(const comm::Group& group) override {
    group.all_reduce(counts_, comm::ReduceOp::Sum, "ranks");
  }
  std::map<std::string, double> values(const std::string&, double) const override {
    std::map<std::string, double> out;
    for (int64_t rank = 1; rank <= kItems; ++rank) {
      const auto count = counts_[rank].item<int64_t>();
      if (count > 0) out[fmt::format("rank {}", rank)] = static_cast<double>(count);
    }
    return out;
  }

 private:
  at::Tensor counts_ = at::zeros({kItems + 1}, at::kLong);
};

Metrics evaluated(const parallel::ModelFactory& factory,
                  const options::TrainingArguments& arguments, const job::Job& job) {
  at::set_num_threads(1);
  auto options = arguments;
  options.per_device_eval_batch_size = 10;
  Trainer trainer(factory, options, sessions(), sessions(61), job);
  trainer.set_scorer([] { return std::make_unique<Ranks>(); });
  trainer.train();
  auto metrics = trainer.evaluate();
  for (const char* time : {"runtime", "samples_per_second", "steps_per_second"}) {
    metrics.erase(std::string("eval_") + time);
  }
  return metrics;
}

TEST(RowTables, AreRankedByTheirOwners) {
  const auto factory = model([](auto& config) {
    config.targets = {{"even", true, 0.5}};
    config.next_item_weight = 0.7;
    config.temperature = 1.5;
  });
  auto whole = evaluated(factory, by_rows(4, 3, false), one_device());
  EXPECT_GT(whole.size(), 10);
  // 61 rows in steps of 30: of the last step's single one two ranks have none.
  for (const int ranks : {1, 3}) {
    SCOPED_TRACE(ranks);
    run_ranks(ranks, [&](const job::Job& job) {
      auto own = evaluated(factory, by_rows(4, 3 / ranks), job);
      if (!job.is_main()) return;
      EXPECT_NEAR(own.at("eval_loss") / whole.at("eval_loss"), 1, 1e-5);
      own["eval_loss"] = whole.at("eval_loss");
      EXPECT_EQ(own, whole);
    });
  }
}

class RowTablesInFolders : public InFolder {};

/// Where a step of two ranks was saved, any layout goes on.
TEST_F(RowTablesInFolders, AreSavedAsTheWholeTable) {
  auto saves = by_rows(8, 1);
  saves.save_strategy = "steps";
  saves.save_steps = 5;
  saves.output.dir = (folder_ / "rows").string();
  const auto all = on_two(model(), saves);
  auto later = saves;
  later.resume_from_checkpoint = (folder_ / "rows/checkpoint-5").string();
  EXPECT_TRUE(at::equal(all.weights, on_two(model(), later).weights));
  auto alone = later;
  alone.gradient_accumulation_steps = 2;
  EXPECT_TRUE(at::equal(all.weights, outcome_of(model(), sessions(), alone, one_device()).weights));
  // Without rows, and back.
  auto dense = later;
  dense.parallel.parallelism.row_tables = false;
  dense.output.dir = (folder_ / "dense").string();
  const auto whole = on_two(model(), dense);
  const auto near = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).abs().max() / b.abs().max()).item<double>();
  };
  EXPECT_LT(near(whole.weights, all.weights), 1e-6);
  auto back = saves;
  back.resume_from_checkpoint = (folder_ / "dense/checkpoint-10").string();
  back.output.dir = (folder_ / "back").string();
  EXPECT_LT(near(on_two(model(), back).weights, all.weights), 1e-6);
}

std::string refusal(const parallel::ModelFactory& factory,
                    const options::TrainingArguments& arguments) {
  try {
    Trainer trainer(factory, arguments, sessions(), nullptr, one_device());
    trainer.predict(*sessions(), [](const auto&, const auto&) {});
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(RowTables, TellWhatDoesNotGo) {
  const auto whole = HasSubstr(
      "row_tables = true needs a table of which a step reads some rows, as of a trained embedding "
      "that scores, too");
  EXPECT_THAT(refusal(model([](auto& config) { config.sampled_softmax = false; }), by_rows(8, 1)),
              whole);
  EXPECT_THAT(refusal(model([](auto& config) { config.weight_tying = false; }), by_rows(8, 1)),
              whole);
  EXPECT_THAT(refusal(model([](auto& config) {
                        config.body = "electra";
                        config.masking = "rtd";
                      }),
                      by_rows(8, 1)),
              whole);
  for (const char* optim : {"adamw_bf16", "lion_32bit"}) {
    auto arguments = by_rows(8, 1);
    arguments.optim = optim;
    EXPECT_THAT(refusal(model(), arguments),
                HasSubstr(fmt::format("got optim = {} with adam_beta1 = 0.9", optim)));
  }
  EXPECT_THAT(refusal(model(), by_rows(8, 1)), HasSubstr("no rank all rows to predict from"));
}

TEST(RowTables, AreEstimated) {
  const auto plan = convoy::estimate(model(), by_rows(4, 2), *sessions(), 2);
  const auto& told = plan.stages.at(0).memory;
  const auto whole = convoy::estimate(model(), by_rows(4, 2, false), *sessions(), 2);
  EXPECT_LT(told.sum(), whole.stages.at(0).memory.sum());
  run_ranks(2, [&](const job::Job& job) {
    Trainer trainer(model(), by_rows(4, 2), sessions(), nullptr, job);
    if (!job.is_main()) return;  // of several the first has most
    const auto kept = trainer.strategy().replica().memory();
    EXPECT_EQ(told.parameters, kept.parameters);
    EXPECT_EQ(told.gradients, kept.gradients);
    EXPECT_EQ(told.optimizer, kept.optimizer);
  });
}

TEST(RowTables, TakeNothingOfTheTablesSizeBesideWeightsAndMoments) {
  const auto factory = model();
  run_ranks(2, [&](const job::Job& job) {
    auto arguments = by_rows(2, 1);
    arguments.max_steps = 2;
    Trainer trainer(factory, arguments, sessions(), nullptr, job);
    trainer.train();
    auto& replica = trainer.strategy().replica();
    const auto use = replica.memory();
    const int64_t flat = replica.flat().layout().num_elements();
    const int64_t rows = job.environment.rank == 0 ? 151 : 150;
    EXPECT_EQ(use.gradients, 4 * flat);
    EXPECT_EQ(use.parameters, 4 * flat + 4 * 24 * rows);
    EXPECT_EQ(use.optimizer, 8 * flat + (8 * 24 + 4) * rows);
    const auto& planned = replica.plan().stages.front().memory;
    EXPECT_EQ(planned.parameters, 4 * flat + 4 * 24 * 151);
    EXPECT_EQ(planned.optimizer, 8 * flat + (8 * 24 + 4) * 151);
    EXPECT_LE(use.buffers, planned.buffers);
  });
}

}  // namespace
}  // namespace convoy::train::row_tables
