// Operations that make tensors or views, or that the processor has not.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>

#include "tests/fake_gpu/allocator.h"
#include "tests/fake_gpu/counters.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/run_on_host.h"
#include "tests/fake_gpu/sites.h"

namespace convoy::fake_gpu {

namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> type,
                 std::optional<c10::Layout>, std::optional<c10::Device> device,
                 std::optional<bool> pinned, std::optional<c10::MemoryFormat> format) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  const c10::OptionalDeviceGuard guard(device && device->has_index() ? device : std::nullopt);
  return at::detail::empty_generic(sizes, &device_allocator(), kKeys,
                                   type.value_or(at::get_default_dtype_as_scalartype()), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                         std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                         std::optional<c10::Device> device, std::optional<bool> pinned) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  const c10::OptionalDeviceGuard guard(device && device->has_index() ? device : std::nullopt);
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator(), kKeys,
                                           type.value_or(at::get_default_dtype_as_scalartype()));
}

/// Makes room in a tensor's storage; what was there stays.
void reserve(c10::TensorImpl& tensor) {
  const auto storage = tensor.unsafe_storage();
  const auto elements =
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.dtype().itemsize(),
                                       static_cast<size_t>(tensor.storage_offset()));
  if (tensor.numel() == 0 || storage.nbytes() >= elements) return;
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  const c10::DeviceGuard guard(tensor.device());
  auto grown = device_allocator().allocate(elements);
  const size_t kept = storage.data() == nullptr ? 0 : storage.nbytes();
  if (kept > 0) {
    Operation copy("aten::resize_", tensor.device().index());
    const auto from = reinterpret_cast<uintptr_t>(storage.data());
    const auto to = reinterpret_cast<uintptr_t>(grown.get());
    copy.uses({from, from + kept}, false);
    copy.uses({to, to + kept}, true);
    std::memcpy(real(grown.get()), real(storage.data()), kept);
  }
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(grown));
  storage.unsafeGetStorageImpl()->set_nbytes(elements);
}

const at::Tensor& resize_(const at::Tensor& tensor, c10::IntArrayRef sizes,
                          std::optional<c10::MemoryFormat> format) {
  if (tensor.sizes() == sizes && !format) return tensor;
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (format) impl->empty_tensor_restride(*format);
  reserve(*impl);
  return tensor;
}

at::Tensor& set_parts(at::Tensor& tensor, at::Storage storage, c10::SymInt offset,
                      c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  const auto shape = C10_AS_INTARRAYREF_SLOW(sizes);
  std::vector<int64_t> steps;
  if (strides.empty()) {
    steps.resize(shape.size());
    int64_t step = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      steps[d] = step;
      step *= std::max<int64_t>(shape[d], 1);
    }
  } else {
    steps = C10_AS_INTARRAYREF_SLOW(strides).vec();
  }
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_sizes_and_strides(shape, steps, offset.expect_int());
  reserve(*impl);
  return tensor;
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage) {
  const c10::SymInt count(static_cast<int64_t>(storage.nbytes() / tensor.element_size()));
  return set_parts(tensor, std::move(storage), 0, c10::SymIntArrayRef(&count, 1), {});
}

at::Tensor& set_tensor(at::Tensor& tensor, const at::Tensor& source) {
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(source.storage());
  impl->set_sizes_and_strides(source.sizes(), source.strides(), source.storage_offset());
  return tensor;
}

at::Tensor& set_nothing(at::Tensor& tensor) {
  return set_tensor(tensor, at::empty({0}, tensor.options()));
}

void record_stream(at::Tensor& tensor, c10::Stream stream) {
  if (!ignored_here("record_stream")) {
    device_allocator().recordStream(tensor.storage().data_ptr(), stream);
  }
}

/// 16-bit factors, a sum and result in 32 bits, which the processor does not know.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, c10::ScalarType type) {
  return at::mm(a.to(at::kFloat), b.to(at::kFloat)).to(type);
}

at::Tensor mm(const at::Tensor& a, const at::Tensor& b, c10::ScalarType type) {
  return run_on_host("aten::mm", {a, b},
                     [&](const Tensors& in) { return Tensors{product(in[0], in[1], type)}; })[0];
}

void fill_out(std::string_view name, at::Tensor& out, const Tensors& inputs,
              const std::function<at::Tensor(const Tensors&)>& compute, at::IntArrayRef sizes) {
  out.resize_(sizes);
  Operation operation(name, out.device().index());
  Tensors here;
  for (const auto& input : inputs) {
    operation.reads(input);
    here.push_back(on_host(input));
  }
  operation.writes(out);
  const c10::impl::ExcludeDispatchKeyGuard none(c10::autograd_dispatch_keyset);
  on_host(out).copy_(compute(here));
}

at::Tensor& mm_out(const at::Tensor& a, const at::Tensor& b, c10::ScalarType type,
                   at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == type,
              "out_dtype must be the same as the dtype of the provided "
              "out tensor");
  fill_out("aten::mm", out, {a, b}, [&](const Tensors& in) { return product(in[0], in[1], type); },
           {a.size(0), b.size(1)});
  return out;
}

/// What is added to comes to the finished product, as in the epilogues of cuBLAS.
at::Tensor sum_of(const Tensors& in, c10::ScalarType type, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  return product(in[1], in[2], at::kFloat).mul_(alpha).add_(in[0].to(at::kFloat), beta).to(type);
}

at::Tensor addmm(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b,
                 c10::ScalarType type, const at::Scalar& beta, const at::Scalar& alpha) {
  return run_on_host("aten::addmm", {bias, a, b},
                     [&](const Tensors& in) { return Tensors{sum_of(in, type, beta, alpha)}; })[0];
}

at::Tensor& addmm_out(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b,
                      c10::ScalarType type, const at::Scalar& beta, const at::Scalar& alpha,
                      at::Tensor& out) {
  fill_out("aten::addmm", out, {bias, a, b},
           [&](const Tensors& in) { return sum_of(in, type, beta, alpha); },
           {a.size(0), b.size(1)});
  return out;
}

at::Tensor softmax(const at::Tensor& x, int64_t dim, bool half_to_float) {
  return run_on_host("aten::_softmax", {x}, [&](const Tensors& in) {
    return Tensors{at::_softmax(half_to_float ? in[0].to(at::kFloat) : in[0], dim, false)};
  })[0];
}

at::Tensor log_softmax(const at::Tensor& x, int64_t dim, bool half_to_float) {
  return run_on_host("aten::_log_softmax", {x}, [&](const Tensors& in) {
    return Tensors{at::_log_softmax(half_to_float ? in[0].to(at::kFloat) : in[0], dim, false)};
  })[0];
}

at::Tensor softmax_backward(const at::Tensor& grad, const at::Tensor& out, int64_t dim,
                            c10::ScalarType type) {
  return run_on_host("aten::_softmax_backward_data", {grad, out}, [&](const Tensors& in) {
    return Tensors{at::_softmax_backward_data(in[0], in[1], dim, in[0].scalar_type()).to(type)};
  })[0];
}

at::Tensor log_softmax_backward(const at::Tensor& grad, const at::Tensor& out, int64_t dim,
                                c10::ScalarType type) {
  return run_on_host("aten::_log_softmax_backward_data", {grad, out}, [&](const Tensors& in) {
    return Tensors{at::_log_softmax_backward_data(in[0], in[1], dim, in[0].scalar_type()).to(type)};
  })[0];
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_parts);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_nothing);
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("record_stream", record_stream);
  m.impl("mm.dtype", mm);
  m.impl("mm.dtype_out", mm_out);
  m.impl("addmm.dtype", addmm);
  m.impl("addmm.dtype_out", addmm_out);
  m.impl("_softmax", softmax);
  m.impl("_log_softmax", log_softmax);
  m.impl("_softmax_backward_data", softmax_backward);
  m.impl("_log_softmax_backward_data", log_softmax_backward);
}

}  // namespace convoy::fake_gpu
