#include "convoy/planner/cost/trace.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "convoy/nn/shapes_only.h"
#include "convoy/planner/cost/cost_key.h"
#include "convoy/planner/cost/skipped_products.h"
#include "convoy/planner/cost/zero_pages.h"

namespace convoy::planner {

namespace {

/// Totals of the operations that this thread has run.
struct Tally {
  double operations = 0;         // of products
  double kernels = 0, made = 0;  // operations that a GPU would launch, and bytes that they return
};
thread_local Tally tally;

int64_t last(const at::Tensor& t, int64_t from_end) {
  return t.size(t.dim() - from_end);
}

/// Operations of the product [.., n, k] x [.., k, m].
double product(const at::Tensor& a, const at::Tensor& b) {
  return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(last(b, 1));
}

/// Operations of attention: the scores of queries [.., q, d] and keys [.., k, d], and their
/// products with values.
double attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const double scores = static_cast<double>(q.numel()) * static_cast<double>(last(k, 2));
  return 2 * scores +
         2 * scores / static_cast<double>(last(q, 1)) * static_cast<double>(last(v, 1));
}

double operations_of(const std::string& name, c10::ArrayRef<const c10::IValue> in) {
  const auto tensor = [&](size_t at) { return in.at(at).toTensor(); };
  if (name == "aten::mm" || name == "aten::bmm") return product(tensor(0), tensor(1));
  if (name == "aten::addmm" || name == "aten::baddbmm") return product(tensor(1), tensor(2));
  constexpr std::string_view kAttention = "aten::_scaled_dot_product";
  if (!name.starts_with(kAttention)) return 0;
  if (name.ends_with("_backward")) return 2.5 * attention(tensor(1), tensor(2), tensor(3));
  return attention(tensor(0), tensor(1), tensor(2));
}

/// Whether an operation computes in place, and so returns no new memory.
bool changes_numbers(std::string_view name) {
  constexpr std::string_view kOthers[] = {"aten::detach_", "aten::requires_grad_", "aten::set_",
                                          "aten::resize_", "aten::squeeze_", "aten::unsqueeze_",
                                          "aten::transpose_", "aten::t_",
                                          // Copied or filled tensors were counted when they were
                                          // made.
                                          "aten::copy_", "aten::fill_", "aten::zero_"};
  return name.starts_with("aten::") && name.ends_with('_') &&
         std::find(std::begin(kOthers), std::end(kOthers), name) == std::end(kOthers);
}

/// Memory that operations of this thread have returned.
class Storages {
 public:
  /// Bytes of a value's tensors that were not seen before.
  double see(const c10::IValue& value) {
    if (value.isTensor()) return see(value.toTensor());
    double fresh = 0;
    if (value.isTensorList()) {
      for (const auto& tensor : value.toTensorVector()) fresh += see(tensor);
    }
    return fresh;
  }
  /// Excludes a tensor that is there already from the count.
  void ignore(const at::Tensor& tensor) {
    if (auto* storage = storage_of(tensor)) {
      ignored_.emplace(storage, tensor.storage().getWeakStorageImpl());
    }
  }
  double live_bytes() const {
    double out = 0;
    for (const auto& [address, seen] : seen_) {
      const auto held = seen.storage.lock();
      if (held.defined()) out += static_cast<double>(held->nbytes());
    }
    return out;
  }

 private:
  static c10::StorageImpl* storage_of(const at::Tensor& tensor) {
    const bool has = tensor.defined() && tensor.has_storage();
    return has ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }
  double see(const at::Tensor& tensor) {
    auto* storage = storage_of(tensor);
    if (storage == nullptr || ignored_.contains(storage)) return 0;
    const auto bytes = static_cast<double>(storage->nbytes());
    const auto [found, is_new] =
        seen_.try_emplace(storage, Seen{tensor.storage().getWeakStorageImpl(), bytes});
    if (is_new) return bytes;
    // Counts growth alone: some operations make an empty tensor first.
    return std::max(0.0, bytes - std::exchange(found->second.bytes, bytes));
  }

  struct Seen {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    double bytes;
  };

  // Weak references keep the addresses from being given to other storages.
  std::map<c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> ignored_;
  std::map<c10::StorageImpl*, Seen> seen_;
};

thread_local Storages* storages = nullptr;

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  if (!asked_again()) tally.operations += operations_of(function.name(), function.inputs());
  return nullptr;
}

void see(const at::RecordFunction& function, at::ObserverContext*) {
  if (storages == nullptr) return;
  double fresh = 0;
  for (const auto& value : function.outputs()) fresh += storages->see(value);
  tally.made += fresh;
  if (fresh > 0 || changes_numbers(function.name())) ++tally.kernels;
}

/// Scope in which operations are counted.
class Counter {
 public:
  Counter()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(count, see)
                .needsInputs(true)
                .needsOutputs(true)
                .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}
  ~Counter() { at::removeCallback(handle_); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  Tally take() { return std::exchange(tally, {}); }

 private:
  at::CallbackHandle handle_;
};

/// Scope in which memory is watched.
class Watch {
 public:
  explicit Watch(Storages& all) { storages = &all; }
  ~Watch() { storages = nullptr; }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
};

/// Scope in which a block's parameters have memory.
class Bound {
 public:
  Bound(const nn::Block& block, at::ScalarType dtype) : block_(block) {
    at::NoGradGuard no_grad;
    for (const auto& param : block.params()) {
      param->bind_value(zero_pages(param->shape(), dtype));
      if (param->spec().trainable) param->bind_grad(zero_pages(param->shape(), at::kFloat));
    }
  }
  ~Bound() {
    for (const auto& param : block_.params()) {
      param->bind_value(at::empty({0}));
      if (param->spec().trainable) param->bind_grad(at::empty({0}));
    }
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  const nn::Block& block_;
};

/// Runs blocks on some rows.
class Tracer {
 public:
  Tracer(const nn::BlockList& blocks, const parallel::MicroBatch& rows,
         const ProfileOptions& options)
      : blocks_(blocks), rows_(rows), options_(options), shared_(nn::read_by_several(blocks)) {
    if (options.shapes_only) shapes_.emplace();
  }

  std::vector<BlockCounts> run() {
    std::vector<BlockCounts> out;
    nn::Bundle in = rows_.inputs;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const auto kind = cost_key(*blocks_[b], in, shared_);
      auto found = known_.find(kind);
      if (found == known_.end()) found = known_.emplace(kind, run(b, in)).first;
      out.push_back(found->second.first);
      in = found->second.second;
    }
    return out;
  }

  /// Number of operations of the traced blocks; of equal blocks, of one.
  double operations() const {
    double out = 0;
    for (const auto& [kind, of] : known_) out += of.first.forward + of.first.backward;
    return out;
  }

 private:
  using Counted = std::pair<BlockCounts, nn::Bundle>;  // and what the block returned

  Counted run(size_t number, const nn::Bundle& in) {
    auto& block = *blocks_[number];
    const Bound bound(block, options_.compute_dtype);
    const nn::Context context{
        nn::Mode::Train, options_.seed, 0, static_cast<int64_t>(number), options_.compute_dtype,
        rows_.samples,   &rows_.inputs};
    Storages all;
    for (const auto& [name, tensor] : in) all.ignore(tensor);
    for (const auto& param : block.params()) {
      all.ignore(param->value());
      if (param->spec().trainable) all.ignore(param->grad());
    }
    Counted out;
    auto& counts = out.first;
    nn::DeferredWrites writes;
    double after_forward = 0;
    Tally backward;
    {
      std::optional<Watch> watch(all);
      const auto given = with_copies(in);
      const double before = all.live_bytes();
      counter_.take();
      auto result = block.forward(given, context);
      const auto forward = counter_.take();
      counts.forward = forward.operations;
      counts.forward_kernels = forward.kernels;
      counts.forward_made = forward.made;
      after_forward = all.live_bytes() - before;
      watch.reset();
      add_bundle(counts, result, given);
      out.second = with_copies(result, /*but=*/&rows_.inputs);
      watch.emplace(all);
      const Roots roots(std::exchange(result, {}));
      const nn::DeferredWeightGrads put_off(block, shared_, writes);
      roots.backward();
      backward = counter_.take();
    }
    const double after_backward = all.live_bytes();
    {
      const Watch watch(all);
      for (const auto& write : std::exchange(writes, {})) write();
    }
    const double stays = all.live_bytes();  // what the block has made once for all
    counts.kept = after_forward - stays;
    counts.put_off = after_backward - stays;
    const auto weight = counter_.take();
    counts.weight = weight.operations;
    counts.backward = backward.operations + weight.operations;
    counts.backward_kernels = backward.kernels + weight.kernels;
    counts.backward_made = backward.made + weight.made;
    return out;
  }

  void add_bundle(BlockCounts& counts, const nn::Bundle& result, const nn::Bundle& given) const {
    for (const auto& [name, tensor] : result) {
      const auto bytes = static_cast<double>(tensor.nbytes());
      if (!holds(given, name, tensor)) counts.returned += bytes;
      if (!holds(rows_.inputs, name, tensor)) counts.sent += bytes;
      if (tensor.requires_grad()) counts.sent_grad += bytes;
    }
  }

  const nn::BlockList& blocks_;
  const parallel::MicroBatch& rows_;
  const ProfileOptions& options_;
  std::set<const nn::Param*> shared_;
  SkippedProducts skipped_;
  std::optional<nn::ShapesOnly> shapes_;
  Counter counter_;
  std::map<std::string, Counted> known_;
};

}  // namespace

parallel::MicroBatch first_rows(const parallel::MicroBatch& batch, int64_t number) {
  const int64_t rows = batch.samples.numel();
  parallel::MicroBatch out{.inputs = {}, .samples = batch.samples.narrow(0, 0, number)};
  for (const auto& [name, tensor] : batch.inputs) {
    const bool by_row = tensor.dim() > 0 && tensor.size(0) == rows;
    out.inputs[name] = by_row ? tensor.narrow(0, 0, number).contiguous() : tensor;
  }
  return out;
}

std::vector<BlockCounts> trace(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
                               const ProfileOptions& options) {
  constexpr int64_t kMostRows = 8;
  constexpr double kOperations = 2e10;  // some tenths of a second at most
  double operations = 0;
  const auto traced = [&](int64_t rows) {
    const auto first = first_rows(batch, rows);
    Tracer tracer(blocks, first, options);
    auto counts = tracer.run();
    operations = tracer.operations();
    return counts;
  };
  int64_t number = 1;
  auto out = traced(number);
  const double cheap = std::floor(kOperations / std::max(1.0, operations));
  const int64_t most = std::min(batch.samples.numel(), kMostRows);
  const auto more = static_cast<int64_t>(std::min(cheap, static_cast<double>(most)));
  if (more > number) out = traced(number = more);
  for (auto& block : out) block = block.times(1 / static_cast<double>(number));
  return out;
}

}  // namespace convoy::planner
