#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/parallel/tensor/cut.h"

namespace convoy::nn {

/// Initial values of a parameter: a function of (seed, parameter name, global element index), so
/// every layout of ranks draws the same weights.
struct Init {
  enum class Kind { Zeros, Ones, Normal, Uniform, LogOfUniform, StepsOfTime, Given };
  Kind kind = Kind::Zeros;
  /// Standard deviation (Normal), half width (Uniform) or largest number (the two after it).
  double scale = 0;
  double least = 0, floor = 0;  ///< of LogOfUniform and StepsOfTime
  /// Row of a table that begins with zeros: that of padding, which is never trained.
  std::optional<int64_t> zero_row = {};

  /// Values that the parameter's leaf already holds (a user's own module).
  static Init given() { return {Kind::Given}; }
  static Init zeros() { return {Kind::Zeros}; }
  static Init ones() { return {Kind::Ones}; }
  static Init normal(double deviation, std::optional<int64_t> zero_row = {}) {
    return {Kind::Normal, deviation, 0, 0, zero_row};
  }
  static Init uniform(double half_width) { return {Kind::Uniform, half_width}; }
  /// Logarithms of numbers from `least` to `most`, evenly.
  static Init log_of_uniform(double least, double most) {
    return {Kind::LogOfUniform, most, least};
  }
  /// Numbers whose softplus is between `least` and `most`, evenly by its logarithm, and at least
  /// `floor`.
  static Init steps_of_time(double least, double most, double floor) {
    return {Kind::StepsOfTime, most, least, floor};
  }
};

/// Declaration of a parameter, before any memory exists.
struct ParamSpec {
  std::string name;            ///< global name, as in `model.safetensors`
  std::vector<int64_t> shape;  ///< global shape
  Init init;
  bool decay = true;             ///< weight decay applies
  bool trainable = true;         ///< frozen parameters own no gradient and no optimizer state
  parallel::TensorCut cut = {};  ///< split among tensor-parallel ranks
  bool read_in_backward = true;  ///< false: no backward asks for the value (tables, biases)
  bool in_first = false;         ///< a matrix [in, out], as in GPT-2's Conv1D; else [out, in]
  /// Upper bounds of the rows that a step reads, for a table of which a training step asks for rows
  /// by embedding() only, and whose blocks can tell which before they run (Block::rows_read). Such
  /// a table can be kept by rows.
  std::optional<parallel::RowReads> row_reads = {};

  int64_t num_elements() const;
};

class LowRank;

/// A parameter: a spec, the memory that flat buffers bind to it, and where its gradient goes.
///
/// Layers keep a handle to the Param, never to its tensors, so that flat buffers may move or
/// release the memory between uses. A layer's backward adds each finished contribution to the
/// gradient here; autograd never sees the weight as a leaf.
class Param {
 public:
  /// Makes a parameter by its spec. `leaf`: a tensor of an opaque module, into which autograd
  /// accumulates; its memory is the flat buffers'.
  explicit Param(ParamSpec spec, at::Tensor leaf = {})
      : spec_(std::move(spec)), shape_(spec_.shape), leaf_(std::move(leaf)) {}

  const ParamSpec& spec() const { return spec_; }
  /// Shape of this rank's part; spec().shape is the global one.
  const std::vector<int64_t>& shape() const { return shape_; }
  /// First index of this rank's part along the dimension that is cut, in the first of several
  /// parts.
  int64_t begin() const { return begin_; }
  void cut(const parallel::TensorPlace& place);

  /// Whether this is a table that is kept by rows: value() and grad() have some rows only, in
  /// another order.
  bool is_by_rows() const { return row_ids_.defined(); }
  /// Places of these rows in value(): the ids themselves where it has all rows. Throws
  /// InternalError where it lacks one (known on the host only).
  at::Tensor places_of(const at::Tensor& ids) const;
  /// Binds the rows `ids` [n], ascending, which are at `places` [n] of value; in whatever gradient
  /// is bound, too.
  void bind_rows(at::Tensor value, at::Tensor ids, at::Tensor places);

  /// Returns the compute weight, in the compute dtype. Throws InternalError before it is bound to
  /// flat buffers.
  const at::Tensor& value() const;

  /// Adds one contribution to the gradient of the micro-batch under way.
  void add_grad(const at::Tensor& contribution);

  /// Fills `out`, or adds to it.
  using Write = std::function<void(at::Tensor& out, bool adds)>;

  /// Adds a contribution that is a product and can be written in place: `write` gets memory of the
  /// parameter's shape, in `dtype`. The first contribution goes straight into the gradient's
  /// memory; on a GPU later ones, too, which add to it. It keeps what it needs by value: it may be
  /// called after the layer's backward.
  void add_grad(at::ScalarType dtype, const Write& write);

  /// Redirects later writes of the form above into a list, to run them later: products of weights'
  /// gradients in a backward in two halves. Null: they are done at once.
  void put_off(std::vector<std::function<void()>>* later) { later_ = later; }

  /// Adds gradients to several parameters that differ in their first dimension only, like
  /// add_grad(). `write` gets them one after the other, in their gradients' memory where that lies
  /// side by side. Their products are put off together.
  friend void add_grads(const std::vector<std::shared_ptr<Param>>& params, at::ScalarType dtype,
                        const Write& write);

  /// Adds a contribution to some places only: `add(grad)` finds zeros where nothing was added yet.
  /// Does nothing for a frozen parameter.
  void add_to_grad(const std::function<void(at::Tensor&)>& add);

  /// Whether a contribution arrived since the last bind_grad().
  bool grad_written() const { return grad_written_; }
  const at::Tensor& grad() const { return grad_; }
  /// Whether each micro-batch so far gave one contribution: those of several may then be added to
  /// one memory, with the bits of their sums.
  bool grad_comes_at_once() const { return has_come_ && !comes_in_parts_; }
  /// Records that a contribution is made in several parts, so it has to be alone in its memory.
  void make_grad_in_parts() { comes_in_parts_ = true; }

  /// Takes the gradient away from a parameter that has no memory yet.
  void freeze() { spec_.trainable = false; }
  /// Adapter that products with this weight add (nn/lora.h); null: none.
  const std::shared_ptr<LowRank>& adapter() const { return adapter_; }
  void set_adapter(std::shared_ptr<LowRank> adapter) { adapter_ = std::move(adapter); }

  const at::Tensor& leaf() const { return leaf_; }
  void bind_value(at::Tensor value);
  /// Sets the memory of a micro-batch's gradient; unless it is `written` already, its old content
  /// does not matter. `of_others`: the content is of other micro-batches.
  void bind_grad(at::Tensor grad, bool written = false, bool of_others = false);

 private:
  void note_contribution();
  /// Whether `write` may add to the memory's content.
  bool adds_in_place(at::ScalarType dtype) const;

  ParamSpec spec_;
  std::vector<int64_t> shape_;
  int64_t begin_ = 0;
  std::shared_ptr<LowRank> adapter_;
  at::Tensor leaf_;
  std::vector<std::function<void()>>* later_ = nullptr;
  at::Tensor value_;
  at::Tensor row_ids_, row_places_;
  at::Tensor grad_;
  bool grad_written_ = false, written_by_others_ = false;
  bool has_come_ = false, comes_in_parts_ = false;  // contributions
};

using ParamPtr = std::shared_ptr<Param>;

void add_grads(const std::vector<ParamPtr>& params, at::ScalarType dtype,
               const Param::Write& write);

/// Fills `out` (fp32, contiguous) with initial values of the parameter: those of its elements,
/// flattened, from `begin` on.
void initialize(const ParamSpec& spec, uint64_t seed, at::Tensor out, int64_t begin = 0);

/// Fills `out` [rows, width] with initial values, like initialize(), for rows first, first +
/// stride, ... of a table.
void initialize_rows(const ParamSpec& spec, uint64_t seed, at::Tensor out, int64_t first,
                     int64_t stride);

}  // namespace convoy::nn
