#include "convoy/models/t5/t5.h"

#include "convoy/base/files.h"
#include "convoy/checkpoint/weights.h"
#include "tests/parity/reference.h"

// The fixtures hold what Hugging Face's T5 computed from the same weights and data;
// make_t5_fixtures.py beside them wrote them.
namespace convoy {
namespace {

constexpr int64_t kT5Batches = 5, kT5Gradients = 3;

class T5Parity : public testing::TestWithParam<const char*> {
 protected:
  T5Parity() : file_(fixture(std::string("t5_") + GetParam())) {
    config_.read(parse_json(file_.metadata().at("config"), "fixture"), "fixture");
    EXPECT_TRUE(config_.unknown().empty()) << config_.unknown().front();
  }

  std::unique_ptr<parallel::Replica> model(parallel::ReplicaOptions options = {}) const {
    return with_weights(file_, config_.make_blocks(), options);
  }

  parallel::MicroBatch batch(int64_t index) const {
    auto ids = tensor(file_, "ids")[index];
    return {{{"input_ids", ids},
             {"key_mask", tensor(file_, "mask")[index].to(at::kBool)},
             {"labels", tensor(file_, "labels")[index]}},
            at::arange(ids.size(0), at::kLong)};
  }

  formats::SafetensorsFile file_;
  models::T5Config config_;
};

TEST_P(T5Parity, LogitsAndLoss) {
  auto replica = model();
  EXPECT_LE(error(all_logits(*replica, batch(0)), tensor(file_, "logits")), 1e-5);
  auto plain = batch(0);
  plain.inputs.erase("key_mask");
  EXPECT_LE(error(all_logits(*replica, plain), tensor(file_, "plain_logits")), 1e-5);
  expect_evaluation(*replica, file_, batch(0));
  parallel::ReplicaOptions options;
  options.compute_dtype = at::kBFloat16;
  const auto off = error(all_logits(*model(options), batch(0)), tensor(file_, "logits"));
  EXPECT_LE(off, 2e-2);
  EXPECT_GT(off, 1e-4) << "bf16 changed nothing";
}

TEST_P(T5Parity, EveryGradientIsAsNearToTheTruthAsPyTorchs) {
  expect_gradients(*model(), file_, kT5Gradients, [&](int64_t i) { return batch(i); });
  parallel::ReplicaOptions options;
  options.parallelism.recompute = true;
  expect_gradients(*model(options), file_, kT5Gradients, [&](int64_t i) { return batch(i); });
}

TEST_P(T5Parity, AHundredAdamWSteps) {
  expect_losses(*model(), file_, kT5Batches, [&](int64_t i) { return batch(i); });
}

TEST_P(T5Parity, RoundTripsThroughItsFiles) {
  const auto folder = unique_folder("convoy-t5");
  auto replica = model();
  checkpoint::save_weights(folder, replica->weights(), replica->world());
  EXPECT_EQ(formats::SafetensorsFile(folder / "model.safetensors").entries().size(),
            replica->flat().all_slots().size())
      << "shared embeddings are saved once";
  models::T5Config again;
  again.read(config_.to_json(), "again");
  EXPECT_EQ(again.to_json(), config_.to_json());
  parallel::Replica other(again.make_blocks(), comm::Group(), {});
  other.start();
  const auto report =
      checkpoint::load_weights(folder, other.weights(), other.world(), again.layout());
  EXPECT_TRUE(report.drawn.empty());
  EXPECT_TRUE(at::equal(all_logits(other, batch(0)), all_logits(*replica, batch(0))));
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Projections, T5Parity, testing::Values("relu", "gated"));

}  // namespace
}  // namespace convoy
