#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

#include "convoy/options/arguments.h"

namespace convoy::bench {

/// Peak rates of a GPU's dense products, in TFLOP/s, with sums in fp32; 0: it has none of that
/// type.
struct Peaks {
  double fp16 = 0;
  double bf16 = 0;
  double tf32 = 0;
  double fp32 = 0;
};

/// Peak rates by the name that the driver gives a GPU ("NVIDIA H100 80GB HBM3"); nothing where it
/// is not in the table.
std::optional<Peaks> peaks_of(std::string_view name);

/// Peak rate of the products that training with `arguments` does, in TFLOP/s.
double peak_tflops(const Peaks& peaks, const options::TrainingArguments& arguments);

/// Returns the driver's name of a GPU; "" of the CPU, or where the driver does not tell.
std::string device_name(at::Device device);

}  // namespace convoy::bench
