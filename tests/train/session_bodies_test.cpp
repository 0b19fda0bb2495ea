#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/train/testing.h"

// Every body of a session model, with dropout, trains to the same numbers in every layout.
namespace convoy::train {
namespace {

constexpr size_t kSteps = 20;

struct Body {
  std::string name;
  std::string masking;
  int64_t num_negatives = 0;  ///< 0: all items; -1: the other targets of the step
  std::string loss = "cross_entropy";
  const char* summary = nullptr;  ///< with all that beside bodies can be asked for
  bool tied = true;               ///< the item table is the output matrix
  const char* attn_type = "uni";
  const char* weights = "";  ///< column of its targets' weights
};

class SessionBodies : public testing::TestWithParam<Body> {
 protected:
  Outcome train(const options::TrainingArguments& arguments, const job::Job& job) const {
    auto config = models::small_session({.ids = 120, .width = 24, .heads = 3, .length = 12});
    config.features.push_back({"kind", true, 7});
    config.body = GetParam().name;
    config.masking = GetParam().masking;
    config.loss = GetParam().loss;
    config.weight_tying = GetParam().tied;
    config.attn_type = GetParam().attn_type;
    config.event_weights.column = GetParam().weights;
    if (config.reads_times()) config.time_feature = "time";
    if (config.has_own_negatives()) {
      config.n_negatives = GetParam().num_negatives;
    } else if (GetParam().num_negatives < 0) {
      config.sampled_softmax = true;
      config.negative_sampling = models::kInBatch;
      for (int64_t id = 0; id < 120; ++id) config.item_counts.push_back(id % 11);
    } else if (GetParam().num_negatives > 0) {
      config.sampled_softmax = true;
      config.max_n_samples = GetParam().num_negatives;
    }
    if (GetParam().summary != nullptr) {
      config.summary_type = GetParam().summary;
      config.targets = {{"even", true, 0.5}, {"share", false, 2}};
      config.next_item_weight = 0.7;
      config.label_smoothing_factor = 0.1;
      config.features.push_back({"price", false});
      config.features.push_back({"person", true, 9, /*is_list=*/false});
      config.features.push_back({"picture", false, 0, true, /*width=*/3});
      config.features.push_back({"taste", false, 0, false, /*width=*/2});
      config.soft_embeddings = config.tabular_layer_norm = true;
      config.stochastic_swap_noise = config.input_dropout = 0.2;
      config.embedding_dims = {{"kind", 5}, {"picture", 4}};
      if (!GetParam().tied) config.frozen_embeddings = {"kind"};
      config.swap_values = {{"items", at::arange(1, 120, at::kLong)},
                            {"kind", at::arange(1, 7, at::kLong)},
                            {"price", at::arange(50) / 50.0},
                            {"person", at::arange(9, at::kLong)}};
    }
    config.n_layer = 3;
    config.dropout = 0.2;
    return outcome_of([config] { return models::make_session_model(config); },
                      random_sessions(203, 120, 12), arguments, job);
  }

  static options::TrainingArguments arguments(int64_t per_device, int64_t accumulation,
                                              int64_t zero = 0) {
    auto out = short_run(per_device, accumulation, static_cast<int64_t>(kSteps));
    out.learning_rate = 5e-3;
    out.parallel.parallelism.zero = zero;
    return out;
  }
};

TEST_P(SessionBodies, AreOneDeviceThatAccumulatesBitForBit) {
  expect_bits_of_one_device(
      [this](const auto& arguments, const auto& job) { return train(arguments, job); }, arguments,
      {0, 3}, kSteps);
}

// Odd numbers of ranks cut the parameters, the rows of a step and its sums elsewhere.
TEST_P(SessionBodies, ThreeRanksEqualAccumulationBitForBit) {
  const auto alone = train(arguments(7, 3), one_device());
  expect_same_bits(alone, train(arguments(7, 1), replicas(3)), kSteps);
  for (const int64_t zero : {0, 3}) {
    expect_same_bits(
        alone,
        outcome_of_ranks(3, [&](const job::Job& job) { return train(arguments(7, 1, zero), job); }),
        kSteps);
  }
}

// Stages sum what they both read, the item table and ALBERT's layer, by stages.
TEST_P(SessionBodies, TrainThroughStages) {
  const auto alone = train(arguments(10, 4), one_device());
  for (const int num_stages : {2, 3}) {
    auto staged = arguments(10, 4);
    staged.parallel.parallelism.ranks.pipeline = num_stages;
    job::Job job = one_device();
    job.strategy = "pipeline";
    job.devices.assign(static_cast<size_t>(num_stages), at::kCPU);
    const auto outcome = train(staged, job);
    const double tolerance = num_stages == 2 ? 1e-6 : 1e-5;
    for (size_t i = 0; i < kSteps; ++i) {
      EXPECT_NEAR(outcome.losses[i] / alone.losses[i], 1, tolerance)
          << "step " << i + 1 << " of " << num_stages << " stages";
    }
  }
}

std::string name_of_body(const testing::TestParamInfo<Body>& info) {
  const auto& body = info.param;
  return fmt::format("{}_{}{}{}{}{}{}{}", body.name, body.masking,
                     body.loss == "cross_entropy" ? "" : "_" + body.loss,
                     body.summary == nullptr ? "" : "_targets", body.tied ? "" : "_untied",
                     body.attn_type == std::string("bi") ? "_bi" : "",
                     body.weights == std::string() ? "" : "_weighted",
                     body.num_negatives < 0 ? "_in_batch" : "");
}

INSTANTIATE_TEST_SUITE_P(
    All, SessionBodies,
    testing::Values(Body{"xlnet", "clm", 0, "cross_entropy", "cls", true, "bi"},
                    Body{"gpt2", "clm", 30}, Body{"gpt2", "clm", 0, "cross_entropy", "last"},
                    Body{"bert", "mlm", 0, "cross_entropy", "mean"},
                    Body{"xlnet", "plm", 0, "cross_entropy", "cls"},
                    Body{"electra", "rtd", 0, "cross_entropy", "cls"},
                    Body{"gpt2", "clm", 0, "cross_entropy", "last", false},
                    Body{"xlnet", "plm", 30, "cross_entropy", nullptr, false},
                    Body{"electra", "rtd", 0, "cross_entropy", nullptr, false},
                    Body{"gpt2", "clm", 30, "cross_entropy", nullptr, true, "uni", "price"},
                    Body{"electra", "rtd", 0, "cross_entropy", "cls", true, "uni", "price"},
                    Body{"xlnet", "plm", 0, "cross_entropy", "mean", false, "uni", "price"},
                    Body{"gpt2", "clm", -1}, Body{"bert", "mlm", -1}, Body{"xlnet", "plm", -1},
                    Body{"electra", "rtd", -1, "cross_entropy", nullptr, true, "uni", "price"}),
    name_of_body);

std::vector<Body> plain_bodies() {
  std::vector<Body> out;
  for (const auto& name : models::bodies_that_learn_by("")) {
    for (const auto& masking : models::session_body(name).maskings) out.push_back({name, masking});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Plain, SessionBodies, testing::ValuesIn(plain_bodies()), name_of_body);

/// Each loss that draws negatives for each target: tied, and with weights and a matrix of its own.
std::vector<Body> bodies_of_losses() {
  std::vector<Body> out;
  for (const auto& loss : models::losses_with_negatives()) {
    out.push_back({"sasrec", "clm", 20, loss});
    out.push_back({"sasrec", "clm", 20, loss, nullptr, false, "uni", "price"});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Losses, SessionBodies, testing::ValuesIn(bodies_of_losses()),
                         name_of_body);

}  // namespace
}  // namespace convoy::train
