#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace convoy::checkpoint {

/// Safetensors' names of the dtypes that a checkpoint may hold.
const std::map<std::string, at::ScalarType>& dtypes();

/// Whether `dtype` is the name of one of them, and of real numbers.
bool is_real(const std::string& dtype);

/// Throws UsageError that names `tensor` for a dtype that none of them is.
std::string name_of(at::ScalarType dtype, const std::string& tensor);

}  // namespace convoy::checkpoint
