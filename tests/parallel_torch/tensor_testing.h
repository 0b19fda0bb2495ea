#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/nn/declare.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/run/replica.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"

// Tensor ranks, each a thread.
namespace convoy::parallel::tensors {

constexpr int64_t kIds = 51;  // no number of ranks divides it but 3

/// Whether it names a next-item loss of a session model.
inline bool is_next_item_loss(const std::string& family) {
  return std::ranges::count(models::losses_with_negatives(), family) > 0;
}

inline bool of_sessions(const std::string& family) {
  return family == "session" || family == "sasrec" || family == "ligr" || family == "smoothed" ||
         is_next_item_loss(family);
}

/// Gives the first of two layers the gated delta rule.
inline void make_first_layer_linear(models::DecoderConfig& config) {
  config.layer_types = {models::kLinearAttention, models::kFullAttention};
  config.head_dim = 8;
  config.linear_num_key_heads = 5;
  config.linear_num_value_heads = 10;
  config.linear_key_head_dim = 4;
  config.linear_value_head_dim = 3;
}

/// Five heads; of Llama six, which read three heads of keys. With dropout where `drops`.
inline nn::BlockList tensor_blocks(const std::string& family, bool drops = true) {
  const models::Small size{.ids = kIds, .width = 20, .heads = 5, .length = 16};
  if (family == "llama") {
    auto config = models::small_llama({.ids = kIds, .width = 24, .heads = 6, .length = 16});
    config.num_key_value_heads = 3;
    if (!drops) config.attention_dropout = 0;
    return config.make_blocks();
  }
  if (family == "qwen3") {  // normalises queries and keys by head; windows in the second layer
    auto config = models::small_decoder(models::kQwen3, size);
    config.num_key_value_heads = 1;
    config.use_sliding_window = true;
    config.sliding_window = 4;
    config.max_window_layers = 1;
    if (drops) config.attention_dropout = 0.2;
    return config.make_blocks();
  }
  if (family == "qwen3_5_text" || family == "olmo_hybrid") {  // the first layer has the delta rule
    const bool fused = family == "qwen3_5_text";
    auto config = models::small_decoder(fused ? models::kQwen35Text : models::kOlmoHybrid, size);
    make_first_layer_linear(config);
    if (drops) config.attention_dropout = 0.2;
    return config.make_blocks();
  }
  if (family == "qwen3_next") {  // both kinds of layers, experts and one that all tokens share
    auto config = models::small_decoder(models::kQwen3Next, size);
    make_first_layer_linear(config);
    config.num_experts = 5;
    config.num_experts_per_tok = 2;
    config.moe_intermediate_size = 12;
    config.shared_expert_intermediate_size = 16;
    if (drops) config.attention_dropout = 0.2;
    return config.make_blocks();
  }
  if (family == "gemma4_text") {  // layers read the first ones' keys, and inputs of their own
    auto config =
        models::small_decoder(models::kGemma4Text, {.ids = kIds, .width = 24, .heads = 6});
    config.num_hidden_layers = 4;
    config.layer_types = {models::kWindowedAttention, models::kFullAttention,
                          models::kWindowedAttention, models::kFullAttention};
    config.num_key_value_heads = 3;
    config.num_global_key_value_heads = 2;
    config.attention_k_eq_v = config.use_double_wide_mlp = true;
    config.global_head_dim = 8;
    config.sliding_window = 4;
    config.num_kv_shared_layers = 2;
    config.hidden_size_per_layer_input = 4;
    config.final_logit_softcapping = 1;
    if (drops) config.attention_dropout = 0.2;
    return config.make_blocks();
  }
  if (family == "mixtral" || family == "gpt_oss") {  // five experts, balanced; or with biases
    const bool stacked = family == "gpt_oss";
    auto config = models::small_decoder(stacked ? models::kGptOss : models::kMixtral, size);
    config.head_dim = 8;
    config.num_experts = 5;
    config.num_experts_per_tok = 2;
    config.sliding_window = stacked ? 4 : 0;
    config.use_sliding_window = stacked;
    config.output_router_logits = !stacked;
    config.router_aux_loss_coef = 0.1;
    if (stacked) config.attention_dropout = drops ? 0.2 : 0;
    return config.make_blocks();
  }
  if (family == "gemma2") {  // caps on scores and logits, a window in the first layer
    auto config = models::small_decoder(models::kGemma2, size);
    config.sliding_window = 4;
    config.query_pre_attn_scalar = 3;
    config.attn_logit_softcapping = 2;
    config.final_logit_softcapping = 1;
    if (drops) config.attention_dropout = 0.2;
    return config.make_blocks();
  }
  if (family == "phi3") {  // q, k and v in one matrix: six heads of queries, two of keys
    auto config = models::small_decoder(models::kPhi3, {.ids = kIds, .width = 24, .heads = 6});
    config.num_key_value_heads = 2;
    if (drops) config.attention_dropout = config.resid_pdrop = 0.2;
    return config.make_blocks();
  }
  if (family == "olmo2") {  // normalises queries and keys over all heads, of keys two
    auto config = models::small_decoder(models::kOlmo2, {.ids = kIds, .width = 24, .heads = 6});
    config.num_key_value_heads = 2;
    if (drops) config.attention_dropout = 0.2;
    return config.make_blocks();
  }
  if (family == "bert" || family == "classifier") {
    auto config = models::small_bert(size);
    config.masking.probability = 0.4;
    if (!drops) config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0;
    return family == "bert" ? config.make_blocks() : config.make_classifier(3);
  }
  if (family == "t5") {
    auto config = models::small_t5({.ids = kIds, .width = 20, .heads = 5});
    config.feed_forward_proj = "gated-gelu";
    config.tie_word_embeddings = false;
    config.relative_attention_num_buckets = 8;
    return config.make_blocks();
  }
  if (of_sessions(family)) {
    auto config = models::small_session({.ids = kIds, .width = 20, .heads = 5, .length = 16});
    config.features.push_back({"kind", true, 3});  // fewer than the most ranks
    if (family == "sasrec" || family == "ligr") config.body = family;
    if (is_next_item_loss(family)) config.loss = family;
    if (family == "smoothed") config.label_smoothing_factor = 0.2;
    if (!drops) config.dropout = 0;
    return models::make_session_model(config);
  }
  auto config = models::small_gpt2(size);
  config.tie_word_embeddings = family == "gpt2";  // else "gpt2 untied"
  if (!drops) config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0;
  return config.make_blocks();
}

struct Trial {
  std::string family = "gpt2";
  parallel::Degrees mesh = {};
  int64_t micro_batches = 2;
  int64_t steps = 3;
  int zero = 0;
  bool drops = true;
  bool recomputes = false;
  bool evaluates = false;
  bool empties = true;           ///< the last micro-batch of the last step has no rows
  bool sequence = false;         ///< tensor ranks share out tokens
  bool joined = false;           ///< expert ranks multiply the rows of all at once
  int64_t rows = 3, length = 0;  ///< of a micro-batch; length 0: 10 and 14 in turns
  std::string schedule = "1f1b";
  at::ScalarType dtype = at::kFloat;
  std::vector<double> loss_scales = {};                     ///< by step; empty: none
  std::function<nn::BlockList(nn::BlockList)> change = {};  ///< of the model; empty: none
  /// Rows of a data rank's micro-batches in a step; empty: `rows`.
  std::function<int64_t(int64_t step, int64_t rank)> rows_of = {};

  int num_ranks() const { return static_cast<int>(mesh.product()); }
  ReplicaOptions options() const {
    ReplicaOptions out;
    out.parallelism.micro_batches = micro_batches;
    out.compute_dtype = dtype;
    out.parallelism.zero = zero;
    out.parallelism.bucket_bytes = 0;
    out.parallelism.recompute = recomputes;
    out.parallelism.sequence_parallel = sequence;
    out.parallelism.expert_joined = joined;
    out.parallelism.pipeline.schedule = parallel::parse_schedule(schedule);
    return out;
  }
};

/// Rows of micro-batch `m` of all data ranks together; of another length each unless that is given,
/// with padding.
inline MicroBatch tensor_batch(const std::string& family, int64_t step, int64_t m, int64_t rows,
                               int64_t length = 0) {
  const int64_t first = m * 3;
  if (length == 0) length = 10 + 4 * (m % 2);
  auto ids = at::arange(rows * length, at::kLong).view({rows, length});
  ids = ids.mul(7).add(11 * m + 5 * step).remainder(kIds - 1);
  MicroBatch out{{{"input_ids", ids}}, at::arange(first, first + rows, at::kLong)};
  if (family == "t5") out.inputs["labels"] = ids.flip(1);
  if (of_sessions(family)) {
    const auto lengths = length - at::arange(rows, at::kLong);
    const auto real = at::arange(length, at::kLong).unsqueeze(0) < lengths.view({-1, 1});
    out.inputs = {
        {"items", (ids + 1) * real}, {"kind", (ids % 2 + 1) * real}, {"lengths", lengths}};
    return out;
  }
  if (family == "classifier") out.inputs["labels"] = at::arange(rows, at::kLong).remainder(3);
  if (family != "llama") {
    out.inputs["key_mask"] = at::arange(length, at::kLong).unsqueeze(0) <
                             length - at::arange(rows, at::kLong).view({-1, 1});
  }
  return out;
}

/// What a run came to: losses, numbers of targets and norms; of the last step each gradient, and
/// the weights after it.
struct TensorOutcome {
  std::vector<double> losses, counts, norms;
  std::vector<bool> skipped;
  std::map<std::string, at::Tensor> grads, first_grads, weights;
  std::map<std::string, at::Tensor> evaluated;  ///< what the last block gave before the first step
};

inline void put(std::map<std::string, at::Tensor>& all, const std::string& name,
                const std::vector<int64_t>& shape, int64_t begin, const at::Tensor& values) {
  auto& whole = all[name];
  if (!whole.defined()) whole = at::full({parallel::num_elements(shape)}, NAN);
  auto place = whole.narrow(0, begin, values.numel());
  const auto known = place.isfinite();
  EXPECT_TRUE(at::equal(place.masked_select(known), values.masked_select(known)))
      << "ranks differ in " << name;
  place.copy_(values);
}

/// Adds a rank's parts, which must have the bits of what others have, too.
inline void put_grads(std::map<std::string, at::Tensor>& all, FlatBuffers& flat) {
  for (const auto& piece : flat.layout().pieces(flat.rank())) {
    const auto& spec = flat.units()[static_cast<size_t>(piece.unit)]
                           .slots[static_cast<size_t>(piece.param)]
                           .param->spec();
    if (!spec.trainable) continue;
    const int64_t bucket = flat.layout().bucket_of(piece.unit);
    parallel::each_row(piece, [&](const parallel::Piece& row) {
      put(all, spec.name, spec.shape, row.begin, flat.grads(bucket, {row.place, row.end()}));
    });
  }
}

inline TensorOutcome train(const Trial& trial) {
  TensorOutcome out;
  std::mutex mutex;
  comm::ThreadConnector connector(std::chrono::seconds(30));
  comm::run_threads(trial.num_ranks(), [&](int rank) {
    at::set_num_threads(1);
    const comm::Groups groups({trial.mesh, rank, trial.num_ranks()},
                              [&](const std::vector<int>& ranks, const std::string& name) {
                                return connector.connect(rank, ranks, name);
                              });
    auto blocks = tensor_blocks(trial.family, trial.drops);
    if (trial.change) blocks = trial.change(std::move(blocks));
    Replica replica(std::move(blocks), groups, trial.options());
    replica.start();
    if (trial.evaluates) {
      auto seen = replica.forward(tensor_batch(trial.family, 0, 0, 3), nn::Mode::Evaluate);
      for (auto& [name, tensor] : seen) {
        if (groups.context.size() == 1) continue;  // else each has those of its positions
        tensor = tensor.clone();
        groups.context.all_reduce(tensor, comm::ReduceOp::Sum, name);
      }
      const std::lock_guard lock(mutex);
      for (const auto& [name, tensor] : seen) {
        const auto [known, fresh] = out.evaluated.emplace(name, tensor);
        EXPECT_TRUE(fresh || at::equal(known->second, tensor)) << name;
      }
    }
    const int64_t data = groups.rows.size(), own = groups.rows.rank();
    for (int64_t step = 0; step < trial.steps; ++step) {
      std::vector<MicroBatch> batches;
      for (int64_t m = 0; m < trial.micro_batches; ++m) {
        // One rank's micro-batches are the data ranks' in turns.
        const bool none = trial.empties && step + 1 == trial.steps && m + 1 == trial.micro_batches;
        const int64_t rows = none ? 0 : trial.rows_of ? trial.rows_of(step, own) : trial.rows;
        batches.push_back(tensor_batch(trial.family, step, m * data + own, rows, trial.length));
      }
      StepInput input{.seed = 7, .step = step, .learning_rate = 2e-3, .updates = step};
      input.check_replicas = true;
      if (!trial.loss_scales.empty()) {
        input.loss_scale = trial.loss_scales[static_cast<size_t>(step)];
      }
      const auto result =
          replica.step(batches, input, {.weight_decay = 0.01, .max_grad_norm = 0.5});
      const std::lock_guard lock(mutex);
      if (rank == 0) {
        out.losses.push_back(result.loss());
        out.counts.push_back(result.count);
        out.norms.push_back(result.grad_norm);
        out.skipped.push_back(result.skipped);
      }
      if (step == 0) put_grads(out.first_grads, replica.flat());
      if (step + 1 == trial.steps) put_grads(out.grads, replica.flat());
    }
    const std::lock_guard lock(mutex);
    for (const auto& tensor : replica.weights()) {
      for (const auto& piece : tensor.pieces) {
        const auto values = piece.values.contiguous().view({-1});
        each_row(piece, [&](int64_t begin, int64_t at, int64_t length) {
          put(out.weights, tensor.name, tensor.shape, begin, values.narrow(0, at, length));
        });
      }
    }
  });
  return out;
}

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

/// By how much losses and gradients may differ.
struct Bounds {
  double first_loss = 1e-6, gradient = 1e-5, loss = 1e-4;
};

inline void expect_close(const TensorOutcome& cut, const TensorOutcome& one,
                         const Bounds& bounds = {}) {
  ASSERT_EQ(cut.losses.size(), one.losses.size());
  EXPECT_NEAR(cut.losses[0] / one.losses[0], 1, bounds.first_loss);
  for (size_t step = 0; step < one.losses.size(); ++step) {
    EXPECT_NEAR(cut.losses[step] / one.losses[step], 1, bounds.loss) << "step " << step;
    EXPECT_EQ(cut.counts[step], one.counts[step]) << "step " << step;
    EXPECT_NEAR(cut.norms[step] / one.norms[step], 1, 30 * bounds.loss) << "step " << step;
  }
  for (const auto& [name, grad] : one.first_grads) {
    ASSERT_TRUE(cut.first_grads.contains(name)) << name;
    // Softmax does not see what is added to all keys' products: its gradient is rounding.
    if (name.ends_with("key.bias")) continue;
    EXPECT_LT(distance(cut.first_grads.at(name), grad), bounds.gradient) << name;
  }
  for (const auto& [name, weights] : one.weights) {
    EXPECT_TRUE(cut.weights.at(name).isfinite().all().item<bool>()) << name;
  }
}

inline void expect_same_bits(const TensorOutcome& a, const TensorOutcome& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  for (const auto& [name, weights] : b.weights) {
    EXPECT_TRUE(at::equal(a.weights.at(name), weights)) << name;
  }
}

inline const std::vector<std::string> kFamilies{
    "mixtral",    "gpt_oss", "gpt2",        "gpt2 untied", "llama", "qwen3",       "qwen3_5_text",
    "qwen3_next", "gemma2",  "gemma4_text", "phi3",        "olmo2", "olmo_hybrid", "bert",
    "classifier", "t5",      "session",     "sasrec",      "ligr"};

/// Of a test of each of them.
inline std::string name_of_family(const testing::TestParamInfo<std::string>& info) {
  auto name = info.param;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

}  // namespace convoy::parallel::tensors
