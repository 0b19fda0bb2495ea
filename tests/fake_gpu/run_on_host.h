#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "tests/fake_gpu/operation.h"

namespace convoy::fake_gpu {

/// The copy of a host tensor with the same strides in new memory of a device, written by
/// `operation`; on the current stream.
at::Tensor onto(const at::Tensor& host, c10::DeviceIndex device, Operation& operation);

using Tensors = std::vector<at::Tensor>;

/// Runs `compute` on the host's view of `inputs` as one operation of their device; what it returns
/// goes to the device.
Tensors run_on_host(std::string_view name, const Tensors& inputs,
                    const std::function<Tensors(const Tensors&)>& compute);

}  // namespace convoy::fake_gpu
