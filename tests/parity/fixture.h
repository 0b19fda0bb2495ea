#pragma once

#include <ATen/ATen.h>

#include <string>

#include "convoy/formats/safetensors.h"

namespace convoy {

inline formats::SafetensorsFile fixture(const std::string& name) {
  return formats::SafetensorsFile(std::string(CONVOY_SOURCE_DIR) + "/tests/parity/" + name +
                                  ".safetensors");
}

inline at::Tensor tensor(const formats::SafetensorsFile& file, const std::string& name) {
  const auto& entry = file.entry(name);
  auto dtype = entry.dtype == "I64"   ? at::kLong
               : entry.dtype == "F64" ? at::kDouble
               : entry.dtype == "U8"  ? at::kByte
                                      : at::kFloat;
  auto* data = const_cast<std::byte*>(file.bytes(name).data());
  return at::from_blob(data, entry.shape, dtype).clone();
}

}  // namespace convoy
