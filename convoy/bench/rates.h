#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "convoy/doctor/diagnosis.h"

namespace convoy::bench {

/// Times square matrix products and copies of large buffers on the CPU with one thread and with
/// `threads`, then on every GPU: about a second each. `say` hears what is being timed.
std::vector<doctor::Rate> measure_rates(int threads, int num_gpus, int64_t available_bytes,
                                        const std::function<void(const std::string&)>& say);

/// Products that are timed.
enum class Products { Both, Fp32, Bf16 };

/// Times one device only, for about a second; at most some `bytes` are taken for each buffer of a
/// copy, and four times as many for a product.
doctor::Rate measure_rate(at::Device device, int threads, int64_t bytes,
                          Products products = Products::Both);

}  // namespace convoy::bench
