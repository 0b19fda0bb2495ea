// A family of language models of one's own, in the whole program convoy:
//   ./own_family train --family pairs --train_file text.txt --tokenizer FOLDER --output_dir out
//   ./own_family eval out
#include <ATen/ATen.h>
#include <convoy/models/causal_head.h>
#include <convoy/models/language_model.h>
#include <convoy/nn/layers/layers.h>
#include <convoy/program.h>
#include <fmt/format.h>

// Shapes: B rows, T positions, D width, V vocabulary.
namespace {

using namespace convoy;

class PairsConfig : public models::LanguageModelConfig {
 public:
  int64_t vocab_size = 1000, width = 64, depth = 2, max_positions = 1024;
  double initializer_range = 0.02;

  std::string family() const override { return "pairs"; }
  std::string architecture() const override { return "PairsForCausalLM"; }
  int64_t num_ids() const override { return vocab_size; }
  int64_t max_length() const override { return max_positions; }
  models::Fields fields() override {
    return {
        {"vocab_size", &vocab_size, "size of the vocabulary", 1, models::kMostIds},
        {"width", &width, "width of the hidden states", 1, models::kWidest},
        {"depth", &depth, "layers", 0, models::kDeepest},
        {"max_positions", &max_positions, "context length", 1, models::kMostIds},
        {"initializer_range", &initializer_range, "standard deviation of initial weights", 0},
    };
  }
  models::WeightLayout layout() const override {
    return {"pairs.", {}, "lm_head.weight", "pairs.embedding.weight"};
  }
  nn::BlockList make_blocks() const override;

 protected:
  void check_together() const override {}
};

// Ids to states.
class Input : public nn::Block {
 public:
  explicit Input(const PairsConfig& config) : Block("input") {
    table_ = declare({"pairs.embedding.weight",
                      {config.vocab_size, config.width},
                      nn::Init::normal(config.initializer_range)});
  }
  const nn::ParamPtr& table() const { return table_; }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    auto out = in;
    out["hidden"] = nn::embedding(in.at("input_ids"), table_, false);
    if (context.mode != nn::Mode::Predict) {
      const auto targets = models::causal_targets(context.batch(in), table_->spec().shape[0]);
      models::put_targets(out, targets, out.at("hidden").device());
    }
    return out;
  }

 private:
  nn::ParamPtr table_;
};

// Each position looks at itself and at the one before.
class Layer : public nn::Block {
 public:
  Layer(const PairsConfig& config, int64_t index) : Block(fmt::format("pairs.{}", index)) {
    const int64_t D = config.width;
    norm_ = declare_norm(name() + ".norm", D);
    in_ = declare_dense(name() + ".in", 2 * D, 4 * D, config.initializer_range);
    out_ = declare_dense(name() + ".out", 4 * D, D, config.initializer_range);
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& /*context*/) override {
    const auto& x = in.at("hidden");  // [B, T, D]
    auto normed = nn::layer_norm(x, norm_, 1e-5);
    auto before = at::constant_pad_nd(normed, {0, 0, 1, 0}).narrow(1, 0, x.size(1));
    auto out = in;
    out["hidden"] = x + nn::linear(at::gelu(nn::linear(at::cat({normed, before}, 2), in_)), out_);
    return out;
  }
  // All layers cost the same: one of them tells what they take.
  std::string cost_key() const override { return "pairs"; }

 private:
  nn::NormParams norm_;
  nn::DenseParams in_, out_;
};

nn::BlockList PairsConfig::make_blocks() const {
  check();
  auto input = std::make_shared<Input>(*this);
  nn::BlockList blocks{input};
  for (int64_t i = 0; i < depth; ++i) blocks.push_back(std::make_shared<Layer>(*this, i));
  blocks.push_back(models::make_causal_head({.norm = "pairs.norm", .table = input->table()}));
  return blocks;
}

}  // namespace

int main(int argc, char** argv) {
  models::add_family(
      "pairs", [] { return std::unique_ptr<models::LanguageModelConfig>(new PairsConfig()); });
  run_program(argc, argv);
}
