#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/nn/param.h"

namespace convoy::nn {

/// Named tensors that travel from block to block.
using Bundle = std::map<std::string, at::Tensor>;

class KvCache;

enum class Mode { Train, Evaluate, Predict };

/// Ids that blocks told of all micro-batches of a step, on all ranks, before it began.
struct StepIds {
  at::Tensor ids;     ///< [n] int64 on the host, ascending, all different
  at::Tensor counts;  ///< [n] int64: how often each was told

  /// Counts `told` [m] int64, in any order.
  static StepIds of(const at::Tensor& told);
};

/// Step as a block may know it, besides its inputs. Random draws are pure functions of these.
struct Context {
  Mode mode = Mode::Train;
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t block = 0;
  at::ScalarType compute_dtype = at::kFloat;
  at::Tensor samples;  ///< [rows] int64: index of each row in the step's global batch
  /// First block's bundle where it was loaded: on the host, so reading it waits for no GPU.
  const Bundle* loaded = nullptr;
  /// Keys and values of the positions before those in the bundle; in prediction only.
  KvCache* cache = nullptr;
  /// Ranks that share out the parameters that are cut, and see the same rows.
  comm::Group tensor = {};
  /// Whether the tensor ranks also split the tokens between their products; in training and
  /// evaluation.
  bool sequence_parallel = false;
  /// Ranks that split the positions of each row; in training and evaluation.
  comm::Group context = {};
  /// Ranks with other rows that share out the experts of each layer; in training and evaluation.
  comm::Group experts = {};
  bool expert_joined = false;  ///< their rows are multiplied at once
  /// Ids of the step of a model that collects ids (Block::collects_ids).
  const StepIds* step_ids = nullptr;
  /// Whether forward runs again for backward alone, and nobody reads the bundle that it returns.
  bool recomputes = false;

  /// Returns the batch that the first block got as `in`, where reading it waits for no GPU.
  const Bundle& batch(const Bundle& in) const { return loaded == nullptr ? in : *loaded; }
};

/// A tensor with its global name, as in `model.safetensors`.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Weight [out, in] and bias [out], as in torch::nn::Linear.
struct DenseParams {
  ParamPtr weight, bias;
};

/// Weight and bias [D] of a layer normalisation.
struct NormParams {
  ParamPtr weight, bias;
};

/// A part of a model: maps a bundle to a bundle.
///
/// The first block gets the batch; the last one returns `loss` (sum over valid targets, fp32
/// scalar) and `count` (their number, int64, or sum of weights, double) in training, evaluation.
class Block {
 public:
  virtual ~Block() = default;
  virtual Bundle forward(const Bundle& in, const Context& context) = 0;

  /// Takes part in a forward without rows of its own: where ranks share out experts (Context), this
  /// one computes with the rows of others. Returns nothing, or tensors through which a backward
  /// does the same.
  virtual Bundle serve(const Context& context);

  const std::string& name() const { return name_; }
  /// Parameters in declaration order. A tied parameter appears in every block that reads it.
  const std::vector<ParamPtr>& params() const { return params_; }
  /// Whether forward gives the same bits and effects however often it runs: it can be recomputed.
  virtual bool repeatable() const { return true; }
  /// Whether forward computes with this rank's part of each parameter, of Param::shape(), together
  /// with the other ranks of Context::tensor, and returns the same bits on all.
  virtual bool takes_tensor_ranks() const { return false; }
  /// Whether it also does so where Context::sequence_parallel makes these ranks share out tokens
  /// (TensorRanks), and then gives partial gradients of parameters that are whole.
  virtual bool takes_sequence_parallel() const { return false; }
  /// Whether it computes with the positions of a row that Context::context leaves to this rank
  /// (ContextRanks).
  virtual bool takes_context_ranks() const { return false; }
  /// Number of experts that each token is sent to; 0: it has none.
  virtual int64_t experts_per_token() const { return 0; }
  /// Whether it keeps apart the documents of a row, where the batch names several (nn/documents.h).
  virtual bool takes_documents() const { return false; }
  /// Key of a block's cost: with its type and the shapes of its parameters and inputs it decides
  /// what the block costs, so of blocks with equal keys only one is run to learn it. By default a
  /// block is like no other.
  virtual std::string cost_key() const;
  /// Returns the ids [n] of rows of `table` (ParamSpec::row_reads) that forward will read in
  /// training and evaluation, of the batch that the first block gets; in any order, some more than
  /// once. In evaluation where the table is by rows (Param::is_by_rows) the last block leaves
  /// scoring to others: it returns `row_states` [N, width], `row_targets` [N], `row_first` (the
  /// lowest id that competes) and `row_weight` (of the cross-entropy in the loss), scalars both.
  virtual at::Tensor rows_read(const Param& table, const Bundle& batch, const Context& context);
  /// Whether a step of training begins with a collective that makes Context::step_ids of what the
  /// last block tells.
  virtual bool collects_ids() const { return false; }
  /// Ids [m] int64 on the host of the batch that the first block gets, in any order: a pure
  /// function of it and of seed, step and samples.
  virtual at::Tensor told_ids(const Bundle& batch, const Context& context);
  /// Names of what the last block tells of its targets beside the loss: in training and evaluation
  /// it returns `metrics` [number of names] double, sums over the targets that `count` counts.
  virtual std::vector<std::string> metrics() const { return {}; }
  /// Tensors without gradient that belong to the model's state (running statistics of BatchNorm).
  virtual std::vector<NamedTensor> buffers() { return {}; }

 protected:
  explicit Block(std::string name) : name_(std::move(name)) {}
  ParamPtr declare(ParamSpec spec) {
    params_.push_back(std::make_shared<Param>(std::move(spec)));
    return params_.back();
  }
  ParamPtr declare(ParamSpec spec, at::Tensor leaf) {
    params_.push_back(std::make_shared<Param>(std::move(spec), std::move(leaf)));
    return params_.back();
  }
  /// [rows, columns] with weight decay.
  ParamPtr declare_matrix(std::string name, std::vector<int64_t> shape, Init init,
                          parallel::TensorCut cut = {});
  /// A parameter of `size` elements without weight decay.
  ParamPtr declare_vector(std::string name, int64_t size, Init init = Init::zeros(),
                          parallel::TensorCut cut = {});
  /// A table whose rows are looked up: backward asks for none of its values.
  ParamPtr declare_table(std::string name, std::vector<int64_t> shape, Init init,
                         parallel::TensorCut cut = {});
  /// `<name>.weight` [out, in] normal with `deviation`, `<name>.bias` zero and without decay. `cut`
  /// is the weight's; where it cuts `out` it is the bias's, too.
  DenseParams declare_dense(const std::string& name, int64_t in, int64_t out, double deviation,
                            const parallel::TensorCut& cut = {});
  /// `<name>.weight` one, `<name>.bias` zero, both without decay.
  NormParams declare_norm(const std::string& name, int64_t size);
  ParamPtr tie(ParamPtr param) {
    params_.push_back(param);
    return param;
  }

 private:
  std::string name_;
  std::vector<ParamPtr> params_;
};

using BlockPtr = std::shared_ptr<Block>;

/// A model is a list of blocks.
using BlockList = std::vector<BlockPtr>;

}  // namespace convoy::nn
