// Operations that have no kernel here: the processor's run on the device's memory.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <set>

#include "tests/fake_gpu/counters.h"
#include "tests/fake_gpu/run_on_host.h"

namespace convoy::fake_gpu {

namespace {

using Stack = torch::jit::Stack;

/// For which torch's CUDA kernels make the host wait: their result's size, or the result itself.
const std::set<std::string> kWaiting{"aten::_local_scalar_dense",
                                     "aten::nonzero",
                                     "aten::masked_select",
                                     "aten::_unique2",
                                     "aten::unique_dim",
                                     "aten::unique_consecutive",
                                     "aten::bincount",
                                     "aten::equal",
                                     "aten::repeat_interleave",
                                     "aten::is_set_to",
                                     "aten::_unique",
                                     "aten::histc"};

/// Those that take tensors of the host beside the device's.
bool takes_host_tensors(const std::string& name) {
  return name.starts_with("aten::index") || name.starts_with("aten::_index") ||
         name == "aten::_fused_adamw_" || name == "aten::_fused_adam_";
}

bool is_mask(const at::Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

/// One call of an operation.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack& stack)
      : op_(op),
        schema_(op.schema()),
        name_(op.operator_name().name),
        stack_(stack),
        begin_(stack.size() - schema_.arguments().size()),
        given_(stack.begin() + static_cast<std::ptrdiff_t>(begin_), stack.end()) {}

  void run() {
    find_device();
    const c10::DeviceGuard guard({c10::kCUDA, device_});
    prepare_indices();
    Operation operation(name_, device_);
    for (size_t i = 0; i < given_.size(); ++i) bring(i, operation);
    {
      const c10::impl::ExcludeDispatchKeyGuard none(c10::autograd_dispatch_keyset);
      op_.callBoxed(&stack_);
    }
    for (auto& [i, host] : resized_) give_size(given_[i].toTensor(), host, operation);
    return_results(operation);
    count_waits(operation);
  }

 private:
  void count_waits(const Operation& operation) const {
    if (!kWaiting.contains(name_)) return;
    Counts counts;
    counts.waits = 1;
    if (name_ == "aten::_local_scalar_dense") {
      counts.blocking_copies = counts.to_host = 1;
      counts.to_host_bytes = static_cast<int64_t>(given_[0].toTensor().element_size());
    }
    count(counts);
    host_waits(reached(operation.stream()));
  }

  /// Torch makes numbers of a mask by `nonzero`, whose size the host waits for, and copies up what
  /// the host has of indices. For aten::index its own code does so before it comes here.
  void prepare_indices() const {
    if (name_ != "aten::_index_put_impl_" || fills_by_mask()) return;
    Counts counts;
    for (const at::Tensor& index : indices()) {
      if (index.is_cuda()) {
        counts.launches += is_mask(index);
        counts.waits += is_mask(index);
        continue;
      }
      const auto number =
          is_mask(index) ? index.count_nonzero().item<int64_t>() * index.dim() : index.numel();
      counts.waits += 1;
      counts.blocking_copies += 1;
      counts.to_device += 1;
      counts.to_device_bytes += number * static_cast<int64_t>(sizeof(int64_t));
    }
    if (counts.waits == 0) return;
    count(counts);
    host_waits(reached(current_stream(device_)));
  }

  /// Whether torch makes a masked_fill of it: one mask, and one number of the host.
  bool fills_by_mask() const {
    const auto& value = given_[2].toTensor();
    const auto all = indices();
    return !given_[3].toBool() && value.numel() == 1 && value.is_cpu() && all.size() == 1 &&
           is_mask(all[0]);
  }

  /// Of aten::_index_put_impl_, those that are given.
  std::vector<at::Tensor> indices() const {
    std::vector<at::Tensor> out;
    for (const std::optional<at::Tensor> index : given_[1].toOptionalTensorList()) {
      if (index && index->defined()) out.push_back(*index);
    }
    return out;
  }

  void see(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (tensor.is_cpu()) {
      if (tensor.dim() > 0 && !on_cpu_) on_cpu_ = true;
      return;
    }
    const auto index = tensor.device().index();
    TORCH_CHECK(device_ < 0 || device_ == index,
                "Expected all tensors to be on the same device, but found at least two devices, "
                "cuda:",
                int{device_}, " and cuda:", int{index}, "! (", name_, ")");
    device_ = index;
  }

  void find_device() {
    for (const auto& value : given_) {
      if (value.isTensor()) see(value.toTensor());
      if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector()) see(tensor);
      }
      if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
          if (tensor) see(*tensor);
        }
      }
    }
    TORCH_CHECK(!on_cpu_ || device_ < 0 || takes_host_tensors(name_),
                "Expected all tensors to be on the same device, but found at least two devices, "
                "cuda:",
                int{device_}, " and cpu! (", name_, ")");
    for (const auto& value : given_) {
      if (device_ < 0 && value.isDevice() && value.toDevice().has_index()) {
        device_ = value.toDevice().index();
      }
    }
    if (device_ < 0) device_ = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice().index();
  }

  /// Whether an argument that is written is read, too: an operation in place, but for those that
  /// overwrite.
  bool updates(size_t i) const {
    static const std::set<std::string> kOverwrite{
        "aten::copy_",   "aten::zero_",          "aten::fill_",          "aten::normal_",
        "aten::random_", "aten::_foreach_copy_", "aten::_foreach_zero_", "aten::set_"};
    return name_.ends_with('_') && !kOverwrite.contains(name_) &&
           schema_.arguments()[i].name() != "out";
  }

  /// How many elements of an argument move, where an index beside it picks some.
  int64_t num_moved(size_t i) const {
    const auto& tensor = given_[i].toTensor();
    const auto number = [&](size_t index) { return given_[index].toTensor().numel(); };
    const bool scattered = name_ == "aten::scatter" && given_.back().isTensor() &&
                           given_.back().toTensor().is_alias_of(given_[0].toTensor()) &&
                           (i == 0 || i + 1 == given_.size());
    if (scattered || (name_ == "aten::gather" && i == 0)) return number(2);
    if (name_ == "aten::embedding" && i == 0) return number(1) * tensor.size(1);
    const bool adds_rows =
        name_ == "aten::index_add_" || (name_ == "aten::index_add" && given_.back().isTensor() &&
                                        given_.back().toTensor().is_alias_of(given_[0].toTensor()));
    if (adds_rows && (i == 0 || i + 1 == given_.size())) return number(3);
    if (name_ == "aten::index_select" && i == 0 && tensor.dim() > 0) {
      return number(2) * (tensor.numel() / tensor.size(given_[1].toInt()));
    }
    return tensor.numel();
  }

  enum class Use { Read, Write, Update };

  Use use_of(size_t i) const {
    const auto* alias = schema_.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) return Use::Read;
    return updates(i) ? Use::Update : Use::Write;
  }

  at::Tensor take(const at::Tensor& tensor, Use use, Operation& operation, int64_t elements) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    if (use != Use::Write) operation.reads(tensor, elements);
    if (use != Use::Read) operation.writes(tensor, elements);
    return on_host(tensor);
  }
  at::Tensor take(const at::Tensor& tensor, Use use, Operation& operation) {
    return take(tensor, use, operation, tensor.defined() ? tensor.numel() : 0);
  }

  void bring(size_t i, Operation& operation) {
    auto& value = stack_[begin_ + i];
    const auto use = use_of(i);
    if (value.isTensor()) {
      const at::Tensor tensor = value.toTensor();
      if (use != Use::Read && tensor.defined() && tensor.is_cuda() && tensor.numel() == 0) {
        resized_.emplace_back(i, at::empty({0}, tensor.options().device(at::kCPU)));
        value = resized_.back().second;
      } else {
        value = take(tensor, use, operation, tensor.defined() ? num_moved(i) : 0);
      }
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      for (auto& tensor : list) tensor = take(tensor, use, operation);
      value = c10::IValue(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
        list.push_back(tensor ? std::optional(take(*tensor, use, operation)) : std::nullopt);
      }
      value = list;
    } else if (value.isDevice()) {
      value = c10::Device(at::kCPU);
    }
  }

  /// An output that came empty gets the size that the kernel gave its stand-in.
  static void give_size(const at::Tensor& out, const at::Tensor& host, Operation& operation) {
    out.resize_(host.sizes());
    if (host.numel() == 0) return;
    operation.writes(out);
    on_host(out).copy_(host);
  }

  void return_results(Operation& operation) {
    const auto& returns = schema_.returns();
    const size_t first = stack_.size() - returns.size();
    for (size_t r = 0; r < returns.size(); ++r) {
      auto& value = stack_[first + r];
      if (const auto* alias = returns[r].alias_info()) {
        value = argument_of(*alias);
      } else if (value.isTensor()) {
        value = onto(value.toTensor(), device_, operation);
      } else if (value.isTensorList()) {
        auto list = value.toTensorVector();
        for (auto& tensor : list) tensor = onto(tensor, device_, operation);
        value = c10::IValue(list);
      }
    }
  }

  const c10::IValue& argument_of(const c10::AliasInfo& wanted) const {
    for (size_t i = 0; wanted.isWrite() && i < given_.size(); ++i) {
      const auto* alias = schema_.arguments()[i].alias_info();
      if (alias != nullptr && alias->beforeSets() == wanted.beforeSets()) return given_[i];
    }
    TORCH_CHECK(false, "fake_gpu: ", name_, " returns a view: it needs a kernel of its own");
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  const std::string& name_;
  Stack& stack_;
  size_t begin_;
  std::vector<c10::IValue> given_;
  std::vector<std::pair<size_t, at::Tensor>> resized_;
  c10::DeviceIndex device_ = -1;
  bool on_cpu_ = false;
};

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  Call(op, *stack).run();
}

}  // namespace

}  // namespace convoy::fake_gpu

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&convoy::fake_gpu::fallback>());
}

// Kernels of torch's CUDA library for operations that else are made of others.
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_foreach_copy_",
         torch::CppFunction::makeFromBoxedFunction<&convoy::fake_gpu::fallback>());
}
