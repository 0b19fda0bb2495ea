#include "convoy/profile/trace.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <string>

#include "convoy/profile/likeness.h"

namespace convoy::profile {

namespace {

/// Operations of the products that this thread has started.
thread_local double operations = 0;

int64_t last(const at::Tensor& t, int64_t from_end) {
  return t.size(t.dim() - from_end);
}

/// [.., n, k] x [.., k, m]
double product(const at::Tensor& a, const at::Tensor& b) {
  return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(last(b, 1));
}

/// Scores and their sum with values, of queries [.., q, d] and keys [.., k, d].
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

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  operations += operations_of(function.name(), function.inputs());
  return nullptr;
}

/// Counts while it lives.
class Counter {
 public:
  Counter()
      : handle_(
            at::addThreadLocalCallback(at::RecordFunctionCallback(count).needsInputs(true).scopes(
                {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {}
  ~Counter() { at::removeCallback(handle_); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  double take() { return std::exchange(operations, 0); }

 private:
  at::CallbackHandle handle_;
};

/// Gives a block memory while it lives.
class Bound {
 public:
  Bound(const nn::Block& block, at::ScalarType dtype) : block_(block) {
    at::NoGradGuard no_grad;
    for (const auto& param : block.params()) {
      param->bind_value(at::zeros(param->shape(), dtype));
      if (param->spec().trainable) param->bind_grad(at::zeros(param->shape(), at::kFloat));
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

/// A batch of the first row.
parallel::MicroBatch first_row(const parallel::MicroBatch& batch) {
  parallel::MicroBatch out{.inputs = {}, .samples = batch.samples.narrow(0, 0, 1)};
  for (const auto& [name, tensor] : batch.inputs) {
    out.inputs[name] = tensor.narrow(0, 0, 1).contiguous();
  }
  return out;
}

}  // namespace

std::vector<Products> trace(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
                            const ProfileOptions& options) {
  const auto row = first_row(batch);
  std::vector<Products> out;
  std::map<std::string, std::pair<Products, nn::Bundle>> known;
  nn::Bundle in = row.inputs;
  Counter counter;
  for (size_t b = 0; b < blocks.size(); ++b) {
    auto& block = *blocks[b];
    const auto kind = likeness(block, in);
    auto found = known.find(kind);
    if (found == known.end()) {
      const Bound bound(block, options.compute_dtype);
      const nn::Context context{
          nn::Mode::Train,       options.seed, 0,          static_cast<int64_t>(b),
          options.compute_dtype, row.samples,  &row.inputs};
      const auto given = parallel::detached(in);
      counter.take();
      const auto result = block.forward(given, context);
      Products products{.forward = counter.take()};
      std::vector<at::Tensor> roots, grads;
      for (const auto& [name, tensor] : result) {
        if (!tensor.requires_grad()) continue;
        roots.push_back(tensor);
        grads.push_back(at::ones_like(tensor));
      }
      if (!roots.empty()) torch::autograd::backward(roots, grads);
      products.backward = counter.take();
      found = known.emplace(kind, std::pair{products, parallel::detached(result)}).first;
    }
    out.push_back(found->second.first);
    in = found->second.second;
  }
  return out;
}

}  // namespace convoy::profile
