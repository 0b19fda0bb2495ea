#include "tests/fake_gpu/run_on_host.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>

#include "tests/fake_gpu/allocator.h"

namespace convoy::fake_gpu {

at::Tensor onto(const at::Tensor& host, c10::DeviceIndex device, Operation& operation) {
  if (!host.defined()) return host;
  const c10::DeviceGuard guard({c10::kCUDA, device});
  at::Tensor out = at::detail::empty_strided_generic(
      host.sizes(), host.strides(), &device_allocator(),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), host.scalar_type());
  operation.writes(out);
  on_host(out).copy_(host);
  return out;
}

Tensors run_on_host(std::string_view name, const Tensors& inputs,
                    const std::function<Tensors(const Tensors&)>& compute) {
  c10::DeviceIndex device = -1;
  for (const auto& input : inputs) {
    if (input.defined() && input.is_cuda() && device < 0) device = input.device().index();
  }
  Operation operation(name, device);
  Tensors here;
  for (const auto& input : inputs) {
    operation.reads(input);
    here.push_back(on_host(input));
  }
  Tensors out;
  {
    const c10::impl::ExcludeDispatchKeyGuard none(c10::autograd_dispatch_keyset);
    out = compute(here);
  }
  for (auto& tensor : out) tensor = onto(tensor, device, operation);
  return out;
}

}  // namespace convoy::fake_gpu
