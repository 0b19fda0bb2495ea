#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "convoy/nn/block.h"
#include "convoy/optim/optimizer.h"
#include "convoy/parallel/layout.h"
#include "convoy/parallel/offload/torch/offload.h"
#include "convoy/parallel/offload/torch/pool.h"

namespace convoy::parallel {

/// Place of a parameter in its flat buffers, in elements of the flat order.
struct Slot {
  nn::ParamPtr param;
  int64_t begin = 0;
  int64_t length = 0;
};

/// Parameters that are gathered, reduced and updated at once; their places are the layout's.
struct Unit {
  std::string name;
  std::vector<Slot> slots;
};

struct FlatBuffersOptions {
  at::Device device = at::kCPU;
  at::ScalarType compute_dtype = at::kFloat;  ///< bf16 keeps fp32 masters beside
  bool trains = true;                         ///< else there are no gradients and no moments
  int rank = 0;                               ///< rank whose own parts are kept
  OffloadOptions offload = {};
  optim::OptimizerPtr optimizer = optim::make_optimizer();  ///< says which moments there are
};

/// Flat buffers of a replica: compute weights, fp32 master weights (the same memory when the
/// compute dtype is fp32; weights that are not trained have none), fp32 gradients, optimizer
/// moments, each whole or sharded as the layout says. Each block's own parameters are a unit, those
/// not trained another one; a parameter that several blocks read is a unit of its own. Units lie in
/// backward order, so a bucket of neighbours is one contiguous gradient. What is offloaded has no
/// flat buffer, and is reached bucket by bucket.
class FlatBuffers {
 public:
  /// Allocates buffers for the parameters of `blocks`, as `layout` places them.
  /// `share_weights_with` (same model, same device): buffers whose weights and moments are used
  /// instead of own ones.
  FlatBuffers(const nn::BlockList& blocks, Layout layout, FlatBuffersOptions options,
              const FlatBuffers* share_weights_with = nullptr);

  /// Binds the parameters to their memory; a user's modules bring their values.
  void bind();

  const Layout& layout() const { return layout_; }
  const std::vector<Unit>& units() const { return units_; }
  int rank() const { return options_.rank; }
  bool trains() const { return options_.trains; }
  const optim::Optimizer& optimizer() const { return *options_.optimizer; }
  /// State that the optimizer keeps of each weight.
  const std::vector<optim::StateSpec>& states() const { return states_; }
  /// Elements of the whole model.
  int64_t num_parameters() const;
  int64_t num_trainable_parameters() const;

  /// Buffers, whole or sharded; undefined where they are offloaded.
  const at::Tensor& compute_weights() const { return weights_; }
  const at::Tensor& masters() const { return masters_; }
  const at::Tensor& grads() const { return grads_; }
  /// Moments of the optimizer, in the order of states().
  const std::vector<at::Tensor>& moments() const { return moments_; }

  /// Some of a bucket's elements of a kind, which this rank keeps; `moment`: its index. Offloaded
  /// elements must have been fetched.
  at::Tensor narrow(Kind kind, int64_t bucket, const Extent& extent, size_t moment = 0) const;
  at::Tensor weights(int64_t bucket, const Extent& extent) const {
    return narrow(Kind::Weights, bucket, extent);
  }
  at::Tensor masters(int64_t bucket, const Extent& extent) const {
    return narrow(Kind::Masters, bucket, extent);
  }
  at::Tensor grads(int64_t bucket, const Extent& extent) const {
    return narrow(Kind::Gradients, bucket, extent);
  }
  /// All elements of a bucket that this rank keeps, in their place. Between steps.
  at::Tensor view(Kind kind, int64_t bucket, size_t moment = 0) const;
  /// Range of a bucket that this rank keeps.
  Extent kept(Kind kind, int64_t bucket) const {
    return layout_.kept(layout_.held_as(kind, bucket), bucket, options_.rank);
  }
  /// Bytes of the memory that buckets of weights are gathered into.
  int64_t num_pooled_bytes() const {
    return pool_.num_elements() * static_cast<int64_t>(at::elementSize(weight_dtype()));
  }
  /// Null where nothing is offloaded.
  Offload* offload() const { return offload_.get(); }
  /// Brings offloaded state of some kinds into memory while `work` changes a bucket of it.
  void change(int64_t bucket, std::initializer_list<Kind> kinds, const std::function<void()>& work);
  /// Changes masters, for each wanted piece of parameters that this rank keeps; each bucket
  /// comes once.
  void change_pieces(const std::function<bool(const Piece&)>& wanted,
                     const std::function<void(int64_t bucket, const Piece&)>& work);
  /// Part of a bucket that is this rank's own.
  Extent part(int64_t bucket) const { return layout_.part(bucket, options_.rank); }

  /// Returns the whole bucket, which the parameters are bound to. Where weights are sharded it has
  /// memory only between attach() and detach().
  const at::Tensor& bucket_weights(int64_t bucket) const {
    return bucket_weights_[static_cast<size_t>(bucket)];
  }
  void attach(int64_t bucket);
  void detach(int64_t bucket);

  /// Options of tensors for masters and gradients, and the dtype of weights.
  at::TensorOptions fp32() const { return at::TensorOptions().device(options_.device); }
  at::ScalarType weight_dtype() const {
    return layout_.options().low_precision ? options_.compute_dtype : at::kFloat;
  }

  /// Rounds some of a bucket's masters to the compute dtype; does nothing in fp32.
  void publish(int64_t bucket, const Extent& extent);
  /// Rounds all masters that this rank keeps to the compute dtype, like publish().
  void publish_weights();
  /// Sets all weights that this rank keeps. Between steps.
  void fill(double value);

  /// Points the gradients of `unit` into `memory`, which begins at `begin` of the flat order.
  /// `written`: slots that have content already; empty: none. `of_others`: content of other
  /// micro-batches.
  void bind_grads(int64_t unit, const at::Tensor& memory, int64_t begin,
                  const std::vector<bool>& written = {}, bool of_others = false);

  /// Returns the master values of a parameter, shaped; of masters that are kept whole.
  /// Undefined if there is none of that name here.
  at::Tensor value_of(const std::string& name);

  /// Slots of all parameters of the model, each once, by unit; those of other stages have no
  /// elements here.
  std::vector<Slot> all_slots() const;

  /// Returns the part of a whole flat buffer that belongs to `slot`, shaped as the parameter.
  static at::Tensor view(const at::Tensor& flat, const Slot& slot, int64_t begin = 0);

 private:
  void place_params(const nn::BlockList& blocks);
  void allocate(const FlatBuffers* share_weights_with);
  void take_leaves();
  bool offloaded(Kind kind) const { return layout_.offloaded(kind); }

  FlatBuffersOptions options_;
  std::vector<optim::StateSpec> states_;
  Layout layout_;
  std::vector<Unit> units_;
  at::Tensor weights_, masters_, grads_;
  std::vector<at::Tensor> moments_;  // undefined or none where they are not kept here
  std::vector<at::Tensor> bucket_weights_;
  Pool pool_;
  std::vector<at::Tensor> attached_;  // [bucket]
  std::unique_ptr<Offload> offload_;
};

}  // namespace convoy::parallel
