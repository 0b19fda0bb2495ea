#pragma once

#include <torch/types.h>

#include <set>
#include <string>
#include <vector>

#include "convoy/nn/block.h"
#include "convoy/schedule/program.h"

namespace convoy::parallel {

/// Where one parameter lies in its arena, in elements of the flat buffers.
struct Slot {
  nn::ParamPtr param;
  int64_t begin = 0;
  int64_t length = 0;
};

/// A unit owns a stretch of the flat buffers: first its decayed, then its other parameters. Every
/// parameter starts at a multiple of kAlignment elements; the gaps stay zero.
struct Unit {
  std::string name;
  std::vector<Slot> slots;
  int64_t begin = 0;
  int64_t decay_end = 0;  ///< [begin, decay_end) decays, [decay_end, end) does not
  int64_t end = 0;
};

/// Multiple of 64 bytes for every dtype that is in use.
inline constexpr int64_t kAlignment = 32;

struct ArenaOptions {
  at::Device device = at::kCPU;
  at::ScalarType compute_dtype = at::kFloat;  ///< bf16 keeps fp32 masters beside
  bool trains = true;                         ///< else there are no gradients
};

/// The flat buffers of a replica: compute weights, fp32 master weights (the same memory when the
/// compute dtype is fp32), fp32 gradients, optimizer moments. Units lie in backward order, so a
/// bucket of neighbours is one contiguous gradient.
class Arena {
 public:
  /// Lays out and binds the parameters of `blocks`. Each block's own parameters are a unit; a
  /// parameter that several blocks read is a unit of its own.
  /// `share_weights_with` (same model, same device): use its weights instead of own ones.
  Arena(const nn::BlockList& blocks, ArenaOptions options, const Arena* share_weights_with);

  const std::vector<Unit>& units() const { return units_; }
  const schedule::ModelTable& table() const { return table_; }
  const std::vector<Slot>& frozen() const { return frozen_; }
  int64_t num_elements() const { return masters_.numel(); }
  int64_t num_parameters() const;
  int64_t num_trainable_parameters() const;

  at::Tensor& masters() { return masters_; }
  at::Tensor& grads() { return grads_; }
  at::Tensor& frozen_values() { return frozen_values_; }
  /// First and second moments; allocated by the optimizer that needs them.
  at::Tensor& first_moments() { return first_moments_; }
  at::Tensor& second_moments() { return second_moments_; }

  /// Draws the initial values of every parameter, or of those in `names`.
  void initialize(uint64_t seed, const std::set<std::string>* names = nullptr);
  /// Rounds the master weights to the compute dtype; nothing to do in fp32.
  void publish_weights();

  /// Points the gradients of `unit` at the arena (`scratch` undefined) or at scratch memory of the
  /// unit's size, for the next micro-batch.
  void bind_grads(int64_t unit, const at::Tensor& scratch);

  /// The master (or frozen) values of a parameter, shaped. Undefined if there is none of that name.
  at::Tensor value_of(const std::string& name);

  /// Every parameter once, in arena order, trainable ones first.
  std::vector<Slot> all_slots() const;

  /// A flat buffer's part that belongs to `slot`, shaped as the parameter.
  static at::Tensor view(const at::Tensor& flat, const Slot& slot);

 private:
  void lay_out(const nn::BlockList& blocks);
  void bind_values(bool own_weights);

  ArenaOptions options_;
  std::vector<Unit> units_;
  std::vector<Slot> frozen_;
  schedule::ModelTable table_;
  at::Tensor weights_, masters_, grads_, frozen_values_;
  at::Tensor first_moments_, second_moments_;
};

}  // namespace convoy::parallel
