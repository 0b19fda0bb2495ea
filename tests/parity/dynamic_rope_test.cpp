#include "convoy/models/decoder/decoder.h"
#include "convoy/models/decoder/decoder_family.h"
#include "convoy/tasks/language/generate.h"
#include "tests/parity/reference.h"

// dynamic_rope.safetensors and longrope.safetensors hold results of Hugging Face's Llama and Phi-3
// beyond the length that their angles are of, one row at a time; make_dynamic_rope_fixture.py wrote
// them.
namespace convoy {
namespace {

class RopeOfRows : public testing::TestWithParam<const char*> {
 protected:
  RopeOfRows() {
    config_.read(parse_json(file_.metadata().at("config"), "fixture"), "fixture");
    const auto lengths = tensor(file_, "lengths");
    for (int64_t row = 0; row < lengths.numel(); ++row) {
      lengths_.push_back(lengths[row].item<int64_t>());
    }
  }

  std::unique_ptr<parallel::Replica> model() {
    return with_weights(weights_, config_.make_blocks());
  }

  at::Tensor logits_of(size_t row) const { return tensor(file_, fmt::format("logits.{}", row)); }

  /// All rows, padded behind them, or with their positions in front.
  parallel::MicroBatch batch(bool in_front) const {
    const auto ids = tensor(file_, "ids");
    const int64_t T = ids.size(1);
    auto placed = at::zeros_like(ids), positions = at::zeros_like(ids);
    auto mask = at::zeros(ids.sizes(), at::kBool);
    for (int64_t row = 0; row < ids.size(0); ++row) {
      const int64_t length = lengths_[static_cast<size_t>(row)];
      const int64_t begin = in_front ? T - length : 0;
      placed[row].narrow(0, begin, length).copy_(ids[row].narrow(0, 0, length));
      positions[row].narrow(0, begin, length).copy_(at::arange(length));
      mask[row].narrow(0, begin, length).fill_(true);
    }
    parallel::MicroBatch out{{{"input_ids", placed}, {"key_mask", mask}},
                             at::arange(ids.size(0), at::kLong)};
    if (in_front) out.inputs["positions"] = positions;
    return out;
  }

  bool is_dynamic() const { return GetParam() == std::string("dynamic_rope"); }

  const formats::SafetensorsFile file_ = fixture(GetParam());
  const formats::SafetensorsFile weights_ = fixture(is_dynamic() ? "causal_llama" : "causal_phi3");
  models::DecoderConfig config_{is_dynamic() ? models::kLlama : models::kPhi3};
  std::vector<int64_t> lengths_;
};

TEST_P(RopeOfRows, ADocumentsLogitsAreThoseOfTheDocumentAlone) {
  auto replica = model();
  const auto ids = tensor(file_, "ids");
  std::vector<at::Tensor> tokens, numbers, positions;
  for (size_t row = 0; row < lengths_.size(); ++row) {
    const auto index = static_cast<int64_t>(row);
    tokens.push_back(ids[index].narrow(0, 0, lengths_[row]));
    numbers.push_back(at::full({lengths_[row]}, index, at::kLong));
    positions.push_back(at::arange(lengths_[row], at::kLong));
  }
  const parallel::MicroBatch packed{{{"input_ids", at::cat(tokens).unsqueeze(0)},
                                     {"documents", at::cat(numbers).unsqueeze(0)},
                                     {"positions", at::cat(positions).unsqueeze(0)}},
                                    at::arange(1, at::kLong)};
  const auto logits = all_logits(*replica, packed)[0];
  int64_t begin = 0;
  for (size_t row = 0; row < lengths_.size(); ++row) {
    EXPECT_LE(error(logits.narrow(0, begin, lengths_[row]), logits_of(row)), 1e-5) << row;
    begin += lengths_[row];
  }
}

TEST_P(RopeOfRows, ARowsLogitsAreThoseOfTheRowAlone) {
  auto replica = model();
  for (const bool in_front : {false, true}) {
    const auto rows = batch(in_front);
    const auto logits = all_logits(*replica, rows);
    for (size_t row = 0; row < lengths_.size(); ++row) {
      const int64_t length = lengths_[row], begin = in_front ? logits.size(1) - length : 0;
      const auto ours = logits[static_cast<int64_t>(row)].narrow(0, begin, length);
      EXPECT_LE(error(ours, logits_of(row)), 1e-5) << row << in_front;
    }
  }
}

TEST_P(RopeOfRows, LearnsFromEachRowAsAlone) {
  auto replica = model();
  parallel::OptimizerOptions still;
  still.max_grad_norm = 0;
  const auto result = replica->step({batch(false)}, {0, 0, /*learning_rate=*/0.0}, still);
  EXPECT_NEAR(result.loss() * result.count / tensor(file_, "loss").sum().item<double>(), 1, 1e-6);
  const std::string projection = is_dynamic() ? "q_proj" : "qkv_proj";
  const auto name = "model.layers.0.self_attn." + projection + ".weight";
  for (const auto& slot : replica->flat().all_slots()) {
    if (slot.param->spec().name != name) continue;
    const auto ours = parallel::FlatBuffers::view(replica->flat().grads(), slot);
    EXPECT_LE(error(ours, tensor(file_, "grad." + projection)), 1e-5);
  }
}

TEST_P(RopeOfRows, GoesOnBeyondTheLimitInAnyBatch) {
  if (is_dynamic()) {
    EXPECT_EQ(config_.max_length(), 4);
    EXPECT_GT(config_.position_limit(), 1000);
  }
  const double scale = std::stod(file_.metadata().at("scale"));
  parallel::ReplicaOptions replica_options;
  replica_options.trains = false;
  replica_options.fill = [&](parallel::Replica& replica) {
    for (const auto& slot : replica.flat().all_slots()) {
      const auto& name = slot.param->spec().name;
      const auto weight = tensor(weights_, "weight." + name);
      replica.flat().value_of(name).copy_(weight.dim() == 2 ? weight * scale : weight);
    }
  };
  const auto strategy = parallel::make_process_strategy([&] { return config_.make_blocks(); },
                                                        comm::Group(), replica_options);
  const auto ids = tensor(file_, "ids").to(at::kInt);
  std::vector<std::vector<int32_t>> prompts;
  for (size_t row = 0; row < lengths_.size(); ++row) {
    const auto* first = ids[static_cast<int64_t>(row)].const_data_ptr<int32_t>();
    prompts.emplace_back(first, first + lengths_[row]);
  }
  const auto theirs = parse_json(file_.metadata().at("texts"), "fixture");
  for (const bool cache : {true, false}) {
    if (cache && !is_dynamic()) continue;  // a text that grows out of its short angles is refused
    for (const int64_t batch_size : {1, 4}) {
      tasks::GenerateOptions options;
      options.max_new_tokens = std::stoll(file_.metadata().at("new"));
      options.batch_size = batch_size;
      options.use_cache = cache;
      Json ours = Json::array();
      tasks::generate(*strategy, config_, prompts, options,
                      [&](const tasks::Generated& text) { ours.push_back(text.ids); });
      EXPECT_EQ(ours, theirs.at(cache ? "true" : "false")) << cache << batch_size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RopeOfRows, testing::Values("dynamic_rope", "longrope"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace convoy
