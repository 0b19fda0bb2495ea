#include "convoy/models/language_model.h"

#include <cstdlib>
#include <filesystem>

#include "convoy/base/files.h"
#include "convoy/checkpoint/carried.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/models/bert/bert_text.h"
#include "tests/parity/reference.h"

// The fixtures hold what PyTorch and Hugging Face's GPT-2 and Llama computed from the same weights
// and data; make_causal_fixtures.py beside them wrote them.
namespace convoy {
namespace {

constexpr int64_t kCausalBatches = 5, kCausalGradients = 3;

class CausalParity : public testing::TestWithParam<const char*> {
 protected:
  CausalParity()
      : file_(fixture(std::string("causal_") + GetParam())),
        configs_(parse_json(file_.metadata().at("configs"), "fixture")) {}

  /// The model with the fixture's weights; `variant`: with another config.
  std::unique_ptr<parallel::Replica> model(const std::string& variant = "",
                                           parallel::ReplicaOptions options = {}) {
    auto config = models::read_model_config(configs_.at(variant), variant);
    EXPECT_TRUE(config->unknown().empty()) << config->unknown().front();
    return with_weights(file_, config->make_blocks(), options, variant);
  }

  /// Whether PyTorch's own steps on two processors differ by more than is allowed here: in the
  /// small model that has inputs of its layers.
  static bool magnifies_rounding() {
    const std::string name = GetParam();
    return name == "gemma4_text" || name == "gemma4";
  }

  parallel::MicroBatch batch(int64_t index) {
    auto ids = tensor(file_, "ids")[index];
    return {{{"input_ids", ids}}, at::arange(ids.size(0), at::kLong)};
  }

  /// The rows of batch(), one behind the other in a row that ends with padding.
  parallel::MicroBatch packed(int64_t index) {
    constexpr int64_t kPadding = 3;
    const auto ids = tensor(file_, "ids")[index];
    const int64_t B = ids.size(0), T = ids.size(1);
    const auto numbers = at::arange(B, at::kLong).unsqueeze(1).expand({B, T}).reshape({1, -1});
    const auto positions = at::arange(T, at::kLong).repeat({1, B});
    const auto pad = [&](const at::Tensor& x, int64_t value) {
      return at::constant_pad_nd(x, {0, kPadding}, value);
    };
    return {{{"input_ids", pad(ids.reshape({1, -1}), 1)},
             {"documents", pad(numbers, -1)},
             {"positions", pad(positions, 0)}},
            at::arange(1, at::kLong)};
  }

  formats::SafetensorsFile file_;
  Json configs_;
};

TEST_P(CausalParity, LogitsOfEveryVariant) {
  for (const auto& [variant, config] : configs_.items()) {
    auto replica = model(variant);
    const auto theirs = tensor(file_, variant.empty() ? "logits" : "logits." + variant);
    EXPECT_LE(error(all_logits(*replica, batch(0)), theirs), 1e-5) << variant;
  }
}

TEST_P(CausalParity, LogitsOfPackedRowsAreTheRows) {
  for (const auto& [variant, config] : configs_.items()) {
    const auto theirs = tensor(file_, variant.empty() ? "logits" : "logits." + variant);
    const int64_t B = theirs.size(0), T = theirs.size(1);
    const auto logits = all_logits(*model(variant), packed(0)).narrow(1, 0, B * T);
    EXPECT_LE(error(logits.view(theirs.sizes()), theirs), 1e-5) << variant;
  }
}

TEST_P(CausalParity, LossesOfPackedRowsAreTheRows) {
  auto replica = model();
  const auto rows = replica->forward(batch(0), nn::Mode::Evaluate);
  const auto row = replica->forward(packed(0), nn::Mode::Evaluate);
  EXPECT_EQ(row.at("count").item<int64_t>(), rows.at("count").item<int64_t>());
  EXPECT_EQ(row.at("correct").item<int64_t>(), rows.at("correct").item<int64_t>());
  EXPECT_NEAR(row.at("loss").item<double>() / rows.at("loss").item<double>(), 1, 1e-6);
}

TEST_P(CausalParity, OtherTokensOfPackedRowsChangeNoBit) {
  // Only the second row's last target counts. Of experts, other tokens change how many rows a
  // product has, by which a processor chooses the order of its sums; and how balanced they are.
  auto& whole = configs_.at("");
  auto& text = whole.contains("text_config") ? whole.at("text_config") : whole;
  const bool has_experts = text.contains("num_experts_per_tok");
  if (has_experts) text["output_router_logits"] = false;
  const auto alike = [&](const at::Tensor& a, const at::Tensor& b) {
    return has_experts ? error(a, b) <= 1e-6 : at::equal(a, b);
  };
  const auto run = [&](int64_t other_id) {
    auto replica = model();
    auto batch = packed(0);
    auto& ids = batch.inputs.at("input_ids");
    const auto own = batch.inputs.at("documents") == 1;
    if (other_id >= 0) ids = at::where(own, ids, other_id);
    auto labels = at::full_like(ids, models::kIgnored);
    const auto last = own.nonzero().max().item<int64_t>();
    labels[0][last].fill_(ids[0][last]);
    batch.inputs["labels"] = labels;
    const auto logits = all_logits(*replica, batch)[0].narrow(0, last - 1, 2).clone();
    parallel::OptimizerOptions still;
    still.max_grad_norm = 0;
    const auto result = replica->step({batch}, {0, 0, /*learning_rate=*/0.0}, still);
    EXPECT_EQ(result.count, 1);
    return std::tuple(logits, result.loss(), replica->flat().grads().clone());
  };
  const auto [logits, loss, grads] = run(-1);
  const auto [other_logits, other_loss, other_grads] = run(3);
  EXPECT_TRUE(alike(logits, other_logits));
  EXPECT_NEAR(loss, other_loss, has_experts ? 1e-6 * loss : 0);
  EXPECT_GT(grads.abs().max().item<float>(), 0);
  EXPECT_TRUE(alike(grads, other_grads));
}

TEST_P(CausalParity, LogitsInBf16) {
  if (magnifies_rounding()) GTEST_SKIP() << "norms of small numbers magnify rounding";
  parallel::ReplicaOptions options;
  options.compute_dtype = at::kBFloat16;
  const auto off = error(all_logits(*model("", options), batch(0)), tensor(file_, "logits"));
  EXPECT_LE(off, 2e-2);
  EXPECT_GT(off, 1e-4) << "bf16 changed nothing";
}

TEST_P(CausalParity, LogitsWithAKeyMask) {
  auto replica = model();
  auto masked = batch(0);
  auto mask = tensor(file_, "key_mask").to(at::kBool);
  masked.inputs["key_mask"] = mask;
  auto real = mask.unsqueeze(2);  // what padding predicts is nobody's business
  auto theirs = tensor(file_, "masked_logits") * real;
  EXPECT_LE(error(all_logits(*replica, masked) * real, theirs), 1e-5);
  auto last = replica->forward(masked, nn::Mode::Predict).at("logits");
  for (int64_t row = 0; row < mask.size(0); ++row) {
    const auto end = mask[row].nonzero().max().item<int64_t>();
    EXPECT_LE(error(last[row][0], theirs[row][end]), 1e-5) << row;
  }
}

TEST_P(CausalParity, ComputesOnlyTheRequestedLogits) {
  auto replica = model();
  auto few = batch(0);
  few.inputs["logits_to_keep"] = at::scalar_tensor(2, at::kLong);
  auto logits = replica->forward(few, nn::Mode::Predict).at("logits");
  const auto theirs = tensor(file_, "logits");
  EXPECT_LE(error(logits, theirs.narrow(1, theirs.size(1) - 2, 2)), 1e-5);
  logits = replica->forward(batch(0), nn::Mode::Predict).at("logits");
  EXPECT_LE(error(logits, theirs.narrow(1, theirs.size(1) - 1, 1)), 1e-5);
}

TEST_P(CausalParity, EvaluationCountsWhatIsPredicted) {
  auto replica = model();
  auto evaluated = batch(0);
  auto next = evaluated.inputs.at("input_ids").narrow(1, 1, 7);
  auto hits = tensor(file_, "logits").narrow(1, 0, 7).argmax(2) == next;
  auto out = replica->forward(evaluated, nn::Mode::Evaluate);
  EXPECT_EQ(out.at("correct").item<int64_t>(), hits.sum().item<int64_t>());
  EXPECT_EQ(out.at("count").item<int64_t>(), next.numel());
  // What is padding is neither predicted nor does it predict.
  auto mask = tensor(file_, "key_mask").to(at::kBool);
  evaluated.inputs["key_mask"] = mask;
  auto pairs = mask.narrow(1, 0, 7).logical_and(mask.narrow(1, 1, 7));
  out = replica->forward(evaluated, nn::Mode::Evaluate);
  EXPECT_EQ(out.at("count").item<int64_t>(), pairs.sum().item<int64_t>());
}

TEST_P(CausalParity, LossOfGivenLabels) {
  auto replica = model();
  auto labelled = batch(1);
  labelled.inputs["labels"] = tensor(file_, "labels");
  auto out = replica->forward(labelled, nn::Mode::Evaluate);
  const auto count = out.at("count").item<double>();
  EXPECT_EQ(count, (tensor(file_, "labels").narrow(1, 1, 7) >= 0).sum().item<double>());
  const auto theirs = tensor(file_, "labels_loss").item<double>();
  EXPECT_NEAR(out.at("loss").item<double>() / count / theirs, 1, 1e-6);
}

TEST_P(CausalParity, EveryGradientIsAsNearToTheTruthAsPyTorchs) {
  expect_gradients(*model(), file_, kCausalGradients, [&](int64_t i) { return batch(i); });
}

TEST_P(CausalParity, EveryGradientOfPackedRowsIsAsNearToTheTruth) {
  expect_gradients(*model(), file_, kCausalGradients, [&](int64_t i) { return packed(i); });
}

TEST_P(CausalParity, AHundredAdamWSteps) {
  if (magnifies_rounding()) GTEST_SKIP() << "PyTorch's own losses differ with the processor";
  expect_losses(*model(), file_, kCausalBatches, [&](int64_t i) { return batch(i); });
}

// there_and_back.py calls this with the folder of a model from Hugging Face.
TEST(ThereAndBack, DISABLED_KeepsTheModelOfAFolder) {
  const std::filesystem::path folder = std::getenv("CONVOY_THERE_AND_BACK");
  const auto where = (folder / "there/config.json").string();
  const auto json = parse_json(read_file(where), where);
  const auto config = models::read_model_config(json, where);
  EXPECT_TRUE(config->unknown().empty());
  const auto* bert = dynamic_cast<const models::BertTextConfig*>(config.get());
  const bool sorts = json.at("architectures").at(0) == "BertForSequenceClassification";
  const auto layout = sorts ? bert->classifier_layout() : config->layout();
  const formats::SafetensorsFile expected(folder / "expected.safetensors");
  parallel::ReplicaOptions options;
  options.fill = [&](parallel::Replica& replica) {
    const auto report =
        checkpoint::load_weights(folder / "there", replica.weights(), replica.world(), layout);
    EXPECT_TRUE(report.drawn.empty());
  };
  parallel::Replica replica(
      sorts ? bert->make_classifier(std::ssize(json.at("id2label"))) : config->make_blocks(),
      comm::Group(), options);
  replica.start();
  auto batch = [&](int64_t i) {
    parallel::MicroBatch out;
    for (const char* name : {"input_ids", "token_type_ids", "labels"}) {
      if (!expected.entries().contains(name)) continue;
      const auto values = tensor(expected, name);
      out.inputs[name] = values[i % values.size(0)];
    }
    out.samples = at::arange(out.inputs.at("input_ids").size(0), at::kLong);
    return out;
  };
  const auto theirs = tensor(expected, "logits");
  EXPECT_LE(error(all_logits(replica, batch(0)), theirs), 1e-5);
  write_file(folder / "back/config.json", config->to_json().dump(2));
  auto weights = replica.weights();
  if (config->wrapper() != nullptr) {
    weights = checkpoint::Carried(folder / "there", *config).with(std::move(weights), true);
  }
  checkpoint::save_weights(folder / "back", weights, replica.world(), /*max_shard_bytes=*/20000);
  const auto losses = tensor(expected, "losses");
  for (int64_t i = 0; i < losses.size(0); ++i) {
    const auto result = replica.step({batch(i)}, {0, i, 1e-4, i}, {});
    ASSERT_NEAR(result.loss() / losses[i].item<double>(), 1, 1e-4) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CausalParity,
                         testing::Values("gpt2", "llama", "gemma2", "gemma3_text", "gemma4_text",
                                         "gemma4_31b", "gpt_oss", "granite", "ministral3",
                                         "mistral", "mixtral", "olmo2", "olmo3", "olmoe", "phi3",
                                         "qwen2", "qwen2_moe", "qwen3", "qwen3_5_moe_text",
                                         "qwen3_5_text", "qwen3_moe", "qwen3_next", "smollm3",
                                         "gemma3", "gemma4", "mistral3", "qwen3_5", "qwen3_5_moe",
                                         "olmo_hybrid"));

}  // namespace
}  // namespace convoy
