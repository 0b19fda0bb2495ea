// Copies between devices and the host, as at::native::copy_kernel_cuda does them.
#include <ATen/ATen.h>
#include <ATen/native/Copy.h>
#include <ATen/native/TensorIterator.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

#include "tests/fake_gpu/counters.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/operation.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/pinned.h"

namespace convoy::fake_gpu {

namespace {

bool needs_temporaries(at::TensorIterator& it) {
  const auto to = it.device(0), from = it.device(1);
  if (to == from) return false;
  const bool plain = it.dtype(0) == it.dtype(1) && it.is_contiguous();
  return !plain && !(to.is_cuda() && from.is_cuda());
}

void copy_through_temporaries(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const auto converts = non_blocking ? at::kCUDA : at::kCPU;
  constexpr auto kContiguous = at::MemoryFormat::Contiguous;
  at::Tensor to_here, from_here;
  if (from.device().type() == converts) {
    to_here = to.is_contiguous() ? to : at::empty_like(to, kContiguous);
    from_here = from.to(to.scalar_type()).expand_as(to).contiguous();
  } else {
    const bool fits = to.is_contiguous() && to.scalar_type() == from.scalar_type();
    to_here = fits ? to : at::empty_like(to, to.options().dtype(from.dtype()), kContiguous);
    from_here = from.expand_as(to).contiguous();
  }
  to_here.copy_(from_here, non_blocking);
  if (!to_here.is_same(to)) to.copy_(to_here, non_blocking);
}

void copy_on_devices(const at::Tensor& to, const at::Tensor& from) {
  const auto here = current_stream(from.device().index());
  const bool crosses = to.device() != from.device();
  const auto there = current_stream(to.device().index());
  const bool ordered = crosses && !mutated("unordered_peer_copy");
  if (ordered) stream_waits(here, reached(there));
  Operation copy(crosses ? "copy between devices" : "aten::copy_", here);
  copy.reads(from);
  copy.writes(to);
  on_host(to).copy_(on_host(from));
  if (ordered) stream_waits(there, reached(here));
}

void copy_to_device(const at::Tensor& to, const at::Tensor& from, bool beside) {
  Operation copy(beside ? "copy to the device" : "blocking copy to the device",
                 to.device().index());
  copy.writes(to);
  Counts counts;
  counts.to_device = 1;
  counts.to_device_bytes = static_cast<int64_t>(to.nbytes());
  if (beside && is_pinned(from.const_data_ptr())) {
    copy_up(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes(), copy);
  } else {
    if (is_pinned(from.const_data_ptr())) copy.uses(span_of(from), false);
    std::memcpy(real(to.mutable_data_ptr()), from.const_data_ptr(), to.nbytes());
    counts.waits = counts.blocking_copies = 1;
    count(counts);
    return host_waits(reached(copy.stream()));
  }
  count(counts);
}

void copy_to_host(const at::Tensor& to, const at::Tensor& from, bool beside) {
  Operation copy(beside ? "copy to the host" : "blocking copy to the host", from.device().index());
  copy.reads(from);
  Counts counts;
  counts.to_host = 1;
  counts.to_host_bytes = static_cast<int64_t>(to.nbytes());
  const bool pinned = is_pinned(to.const_data_ptr());
  if (beside && pinned) {
    count(counts);
    return copy_down(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes(), copy);
  }
  if (pinned) copy.uses(span_of(to), true);
  counts.waits = counts.blocking_copies = 1;
  count(counts);
  host_waits(reached(copy.stream()));
  std::memcpy(to.mutable_data_ptr(), real(from.const_data_ptr()), to.nbytes());
}

void copy_kernel(at::TensorIterator& it, bool non_blocking) {
  const auto to = it.tensor(0), from = it.tensor(1);
  if (needs_temporaries(it)) return copy_through_temporaries(to, from, non_blocking);
  const c10::DeviceGuard guard(to.is_cuda() ? to.device() : from.device());
  if (to.is_cuda() && from.is_cuda()) {
    copy_on_devices(to, from);
  } else if (to.is_cuda()) {
    copy_to_device(to, from, non_blocking);
  } else {
    copy_to_host(to, from, non_blocking);
  }
}

}  // namespace

}  // namespace convoy::fake_gpu

namespace at::native {
REGISTER_CUDA_DISPATCH(copy_stub, &convoy::fake_gpu::copy_kernel)
}  // namespace at::native
