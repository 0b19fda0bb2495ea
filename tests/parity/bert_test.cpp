#include "convoy/models/bert/bert_text.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/tasks/pretrained.h"
#include "tests/parity/reference.h"

// The fixtures hold what Hugging Face's BERT computed from the same weights and data;
// make_bert_fixtures.py beside them wrote them.
namespace convoy {
namespace {

constexpr int64_t kBertBatches = 5, kBertGradients = 5, kLabels = 3;

class BertParity : public testing::TestWithParam<const char*> {
 protected:
  BertParity() : file_(fixture(std::string("bert_") + GetParam())) {
    config_.read(parse_json(file_.metadata().at("config"), "fixture"), "fixture");
    EXPECT_TRUE(config_.unknown().empty()) << config_.unknown().front();
  }

  bool masked() const { return std::string(GetParam()) == "masked"; }

  nn::BlockList blocks() const {
    return masked() ? config_.make_blocks() : config_.make_classifier(kLabels);
  }

  std::unique_ptr<parallel::Replica> model(parallel::ReplicaOptions options = {}) const {
    return with_weights(file_, blocks(), options);
  }

  parallel::MicroBatch batch(int64_t index) const {
    auto ids = tensor(file_, "ids")[index];
    return {{{"input_ids", ids},
             {"token_type_ids", tensor(file_, "types")[index]},
             {"key_mask", tensor(file_, "mask")[index].to(at::kBool)},
             {"labels", tensor(file_, "labels")[index]}},
            at::arange(ids.size(0), at::kLong)};
  }

  /// What padding gives is nobody's business.
  at::Tensor of_real(const at::Tensor& logits) const {
    return masked() ? logits * tensor(file_, "mask")[0].unsqueeze(2) : logits;
  }

  formats::SafetensorsFile file_;
  models::BertTextConfig config_;
};

TEST_P(BertParity, LogitsAndLoss) {
  auto replica = model();
  const auto logits = replica->forward(batch(0), nn::Mode::Predict).at("logits");
  EXPECT_LE(error(of_real(logits), of_real(tensor(file_, "logits"))), 1e-5);
  parallel::MicroBatch plain{{{"input_ids", tensor(file_, "ids")[0]}}, at::arange(3, at::kLong)};
  EXPECT_LE(
      error(replica->forward(plain, nn::Mode::Predict).at("logits"), tensor(file_, "plain_logits")),
      1e-5);
  expect_evaluation(*replica, file_, batch(0));
  parallel::ReplicaOptions options;
  options.compute_dtype = at::kBFloat16;
  const auto rounded = model(options)->forward(batch(0), nn::Mode::Predict).at("logits");
  const auto off = error(of_real(rounded), of_real(tensor(file_, "logits")));
  EXPECT_LE(off, 2e-2);
  EXPECT_GT(off, 1e-4) << "or nothing was rounded";
}

TEST_P(BertParity, EveryGradientIsAsNearToTheTruthAsPyTorchs) {
  // Those of keys' biases are nothing but rounding: softmax does not see them.
  expect_gradients(
      *model(), file_, kBertGradients, [&](int64_t i) { return batch(i); }, "key.bias");
}

TEST_P(BertParity, AHundredAdamWSteps) {
  expect_losses(*model(), file_, kBertBatches, [&](int64_t i) { return batch(i); });
}

TEST_P(BertParity, RoundTripsAndTakesAnotherHead) {
  const auto folder = unique_folder("convoy-bert");
  auto replica = model();
  checkpoint::save_weights(folder, replica->weights(), replica->world());
  const auto layout = masked() ? config_.layout() : config_.classifier_layout();
  models::BertTextConfig config;
  config.read(config_.to_json(), "again");
  EXPECT_EQ(config.to_json(), config_.to_json());
  auto again = std::make_unique<parallel::Replica>(
      masked() ? config.make_blocks() : config.make_classifier(kLabels), comm::Group(),
      parallel::ReplicaOptions{});
  again->start();
  auto report = checkpoint::load_weights(folder, again->weights(), again->world(), layout);
  EXPECT_TRUE(report.drawn.empty());
  EXPECT_TRUE(at::equal(again->forward(batch(0), nn::Mode::Predict).at("logits"),
                        replica->forward(batch(0), nn::Mode::Predict).at("logits")));
  auto other = std::make_unique<parallel::Replica>(
      masked() ? config_.make_classifier(kLabels) : config_.make_blocks(), comm::Group(),
      parallel::ReplicaOptions{});
  other->start();
  report = checkpoint::load_weights(folder, other->weights(), other->world(),
                                    masked() ? config_.classifier_layout() : config_.layout());
  EXPECT_EQ(report.drawn.size(), masked() ? 4u : 5u);
  EXPECT_EQ(report.skipped.size(), masked() ? 5u : 4u);
  const std::string table = "bert.embeddings.word_embeddings.weight";
  EXPECT_TRUE(at::equal(other->flat().value_of(table), replica->flat().value_of(table)));
  std::filesystem::remove_all(folder);
}

TEST_P(BertParity, ABodyAloneWithoutItsPrefixIsReadAndItsHeadToldAsDrawn) {
  // As old files of a BertModel are, with the positions' numbers among the tensors.
  const auto folder = unique_folder("convoy-bert");
  const std::string prefix = "weight.bert.";
  const int64_t length = config_.max_position_embeddings;
  const auto numbers = at::arange(length, at::kLong);
  std::vector<formats::TensorView> tensors{{"embeddings.position_ids",
                                            "I64",
                                            {1, length},
                                            numbers.const_data_ptr(),
                                            static_cast<size_t>(numbers.nbytes())}};
  for (const auto& [name, entry] : file_.entries()) {
    if (!name.starts_with(prefix)) continue;
    const auto bytes = file_.bytes(name);
    tensors.push_back(
        {name.substr(prefix.size()), entry.dtype, entry.shape, bytes.data(), bytes.size()});
  }
  formats::write_safetensors(folder / "model.safetensors", tensors);

  tasks::Run run;
  tasks::start_from(folder, config_, masked() ? config_.layout() : config_.classifier_layout(),
                    run);
  parallel::ReplicaOptions options;
  options.fill = run.fill;
  parallel::Replica replica(blocks(), comm::Group(), options);
  replica.start();
  const auto told = join(*run.notes, "\n");
  EXPECT_EQ(run.notes->size(), masked() ? 6u : 3u) << told;
  EXPECT_NE(told.find("ignored 1 tensor that the model does not use, such as "
                      "embeddings.position_ids"),
            std::string::npos)
      << told;
  for (const auto& slot : replica.flat().all_slots()) {
    const auto& name = slot.param->spec().name;
    const bool of_head = name.starts_with(masked() ? "cls." : "classifier.");
    EXPECT_EQ(told.find(" has no " + name + ":") != std::string::npos, of_head) << told;
    if (of_head) replica.flat().value_of(name).copy_(tensor(file_, "weight." + name));
  }
  replica.flat().publish_weights();
  EXPECT_TRUE(at::equal(replica.forward(batch(0), nn::Mode::Predict).at("logits"),
                        model()->forward(batch(0), nn::Mode::Predict).at("logits")));
  std::filesystem::remove_all(folder);
}

// hidden_states.py calls this with a folder of Hugging Face's and what it computes of sentences.
TEST(HiddenStates, DISABLED_EqualHuggingFacesForAFolder) {
  const std::filesystem::path folder = std::getenv("CONVOY_MODEL");
  const formats::SafetensorsFile expected(std::filesystem::path(std::getenv("CONVOY_STATES")));
  models::BertTextConfig config;
  const auto where = (folder / "config.json").string();
  config.read(parse_json(read_file(where), where), where);
  auto blocks = config.make_blocks();
  blocks.pop_back();
  parallel::ReplicaOptions options;
  options.trains = false;
  options.fill = [&](parallel::Replica& replica) {
    const auto report =
        checkpoint::load_weights(folder, replica.weights(), replica.world(), config.layout());
    EXPECT_TRUE(report.drawn.empty());
  };
  parallel::Replica replica(blocks, comm::Group(), options);
  replica.start();
  double worst = 0;
  int64_t sentences = 0;
  for (int64_t i = 0; expected.entries().contains(fmt::format("ids.{}", i)); ++i) {
    const auto ids = tensor(expected, fmt::format("ids.{}", i));
    const auto mask = tensor(expected, fmt::format("mask.{}", i));
    const parallel::MicroBatch batch{{{"input_ids", ids}, {"key_mask", mask.to(at::kBool)}},
                                     at::arange(ids.size(0), at::kLong)};
    const auto real = mask.unsqueeze(2);
    const auto ours = replica.forward(batch, nn::Mode::Predict).at("hidden") * real;
    const auto off = error(ours, tensor(expected, fmt::format("states.{}", i)) * real);
    EXPECT_LE(off, 1e-5) << i;  // nor is it no number
    worst = std::max(worst, off);
    sentences += ids.size(0);
  }
  EXPECT_GE(sentences, 1000);
  fmt::print("{} sentences: states differ by at most {:.1e} of the largest\n", sentences, worst);
}

INSTANTIATE_TEST_SUITE_P(Heads, BertParity, testing::Values("masked", "classifier"));

TEST(TextMasking, HidesEightyTenTenOfTheChosenTheSameInAnyBatch) {
  constexpr int64_t kIds = 1000, kRows = 64, kLength = 128;
  masking::TextMasking masking{0.15, /*mask_id=*/3, /*kept_ids=*/{1, 2}};
  nn::Context context;
  context.seed = 7;
  context.step = 5;
  context.samples = at::arange(kRows, at::kLong);
  auto ids = (at::arange(kRows * kLength, at::kLong) % (kIds - 10) + 10).view({kRows, kLength});
  ids.select(1, 0).fill_(1);
  ids.select(1, kLength - 1).fill_(2);
  const auto all = masking::mask_text(ids, masking, kIds, context);
  const auto chosen = all.targets >= 0;
  EXPECT_TRUE(at::equal(all.targets.masked_select(chosen), ids.masked_select(chosen)));
  EXPECT_TRUE(at::equal(all.ids.masked_fill(chosen, 0), ids.masked_fill(chosen, 0)));
  EXPECT_FALSE(chosen.select(1, 0).any().item<bool>());
  const auto count = chosen.sum().item<double>();
  EXPECT_NEAR(count / (kRows * (kLength - 2)), 0.15, 0.015);
  const auto masked = (all.ids == 3).sum().item<double>();
  const auto kept = ((all.ids == ids) & chosen).sum().item<double>();
  EXPECT_NEAR(masked / count, 0.8, 0.04);
  EXPECT_NEAR(kept / count, 0.1, 0.03);
  // The others are any ids: spread over all of them.
  const auto others = all.ids.masked_select(chosen & (all.ids != 3) & (all.ids != ids));
  EXPECT_NEAR(others.to(at::kDouble).mean().item<double>(), kIds / 2, kIds / 8);
  EXPECT_LT(others.min().item<int64_t>(), kIds / 8);
  EXPECT_GT(others.max().item<int64_t>(), kIds - kIds / 8);
  const auto* other = others.const_data_ptr<int64_t>();
  EXPECT_GT(std::set<int64_t>(other, other + others.numel()).size(), 0.07 * count);
  // Rows 20 to 29 alone, as a rank or a micro-batch has them.
  context.samples = at::arange(20, 30, at::kLong);
  const auto some = masking::mask_text(ids.narrow(0, 20, 10), masking, kIds, context);
  EXPECT_TRUE(at::equal(some.ids, all.ids.narrow(0, 20, 10)));
  const auto differs = [&](const nn::Context& with) {
    return !at::equal(masking::mask_text(ids.narrow(0, 20, 10), masking, kIds, with).targets,
                      some.targets);
  };
  EXPECT_FALSE(differs(context));
  context.step = 6;
  EXPECT_TRUE(differs(context));
  context.step = 5;
  context.seed = 8;
  EXPECT_TRUE(differs(context));
  // Evaluation asks for the same in whatever batch a text is.
  context.mode = nn::Mode::Evaluate;
  const auto evaluated = masking::mask_text(ids.narrow(0, 20, 10), masking, kIds, context);
  context.samples = at::zeros({1}, at::kLong);
  const auto alone = masking::mask_text(ids.narrow(0, 22, 1), masking, kIds, context);
  EXPECT_TRUE(at::equal(alone.targets[0], evaluated.targets[2]));
}

}  // namespace
}  // namespace convoy
