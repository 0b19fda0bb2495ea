#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace convoy::checkpoint {

/// Safetensors' names of the dtypes that a checkpoint may hold.
const std::map<std::string, at::ScalarType>& dtypes();

/// Throws UsageError that names `tensor` for a dtype that none of them is.
std::string name_of(at::ScalarType dtype, const std::string& tensor);

}  // namespace convoy::checkpoint
