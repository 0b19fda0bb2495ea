#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::optim {

/// A number that an optimizer keeps of each weight, zero at first.
struct StateSpec {
  std::string name;  ///< checkpoints have it as `<name>.<parameter>`
  at::ScalarType dtype = at::kFloat;
};

/// Elements of one parameter that lie side by side, in the parameter and in a stretch.
struct Span {
  std::string_view parameter;  ///< its global name
  int64_t begin = 0;           ///< the first one's index in the whole parameter, flattened
  int64_t place = 0;           ///< its place in the range
  int64_t length = 0;
};

/// Some elements of flat buffers, [elements] each: those of neighbouring parameters, or parts of
/// them, and the padding between them, which is zero and stays so.
struct FlatRange {
  at::Tensor weights;              ///< fp32 masters, updated in place
  at::Tensor grads;                ///< fp32; of no use afterwards
  std::vector<at::Tensor> states;  ///< in the order of Optimizer::states(), updated in place
  at::Tensor rounded;              ///< the weights in the compute dtype; undefined where fp32
  double weight_decay = 0;
  std::vector<Span> spans = {};  ///< in ascending order; only for who asks for them
};

/// Values of a step that every update gets; equal on all ranks.
struct StepNumbers {
  double learning_rate = 0;
  int64_t step = 1;         ///< counts from 1, and updates only
  double grad_divisor = 1;  ///< gradients are divided by it on the way
  uint64_t seed = 0;
  /// [3] fp32 on a GPU where the host does not know the divisor yet: factor of the gradients,
  /// whether nothing is to be updated (1), and the divisor. Then `grad_divisor` means nothing.
  at::Tensor device_state = {};
};

/// Settings that an optimizer is made with, by the options' names; it ignores those it has no use
/// for.
struct Settings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// Rule by which weights follow from gradients, element by element: the numbers that are kept of
/// each weight, and the update of a stretch of flat buffers. The result for an element may depend
/// on its own numbers, the step's and its parameter's name and index only, never on how stretches
/// are cut: so every layout of ranks comes to the same bits. Threads share one object.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Name in checkpoints.
  virtual std::string name() const = 0;
  virtual std::vector<StateSpec> states() const = 0;
  /// Whether update() wants to know which parameters' elements a stretch has.
  virtual bool needs_spans() const { return false; }
  virtual void update(const FlatRange& stretch, const StepNumbers& numbers) const = 0;
  /// Updates several stretches. On a GPU that may take fewer launches than one by one, with the
  /// same bits.
  virtual void update_all(const std::vector<FlatRange>& stretches,
                          const StepNumbers& numbers) const;

  /// Whether update_all() reads StepNumbers::device_state for such ranges, so that it can be
  /// launched before the host knows the gradient's norm.
  virtual bool reads_device_state(const std::vector<FlatRange>&) const { return false; }

  /// Number of updates without a gradient after which only weight decay still changes a weight,
  /// whatever it was before; 0: never. The updates beyond it that a row of a table misses are then
  /// applied all at once, by idle().
  virtual int64_t updates_until_idle() const { return 0; }
  /// Applies updates beyond updates_until_idle(): `kept` is for each row the product of the factors
  /// that decay leaves of a weight, `updates` the number of updates, [rows, 1] fp32 both. The
  /// tensors of `rows` are [rows, width].
  virtual void idle(const FlatRange& rows, const at::Tensor& kept, const at::Tensor& updates) const;

  /// Bytes that all states of one weight take.
  int64_t state_bytes() const;
};

using OptimizerPtr = std::shared_ptr<const Optimizer>;

inline constexpr const char* kDefaultOptimizer = "adamw_torch";

/// Makes an optimizer by the name that `--optim` takes. Throws UsageError, which lists the names,
/// on any other.
OptimizerPtr make_optimizer(const std::string& name = kDefaultOptimizer,
                            const Settings& settings = {});
std::vector<std::string> optimizer_names();

/// An optimizer, as `--optim` finds it.
struct OptimizerEntry {
  std::string name;
  std::string what;  ///< a few words for the help
  bool reads_epsilon = false;
  OptimizerPtr (*make)(const Settings&) = nullptr;
};

/// Adds one behind the others: at the start of a program, before anything asks for one.
void add_optimizer(OptimizerEntry entry);
/// Names of the optimizers that read Settings::epsilon.
std::vector<std::string> optimizers_with_epsilon();
/// A line on each, for the help of `--optim`.
std::string optimizer_help();

}  // namespace convoy::optim
