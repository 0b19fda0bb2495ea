#include "convoy/checkpoint/dtypes.h"

#include "convoy/base/error.h"

namespace convoy::checkpoint {

const std::map<std::string, at::ScalarType>& dtypes() {
  static const std::map<std::string, at::ScalarType> kDtypes{
      {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"F64", at::kDouble},
      {"I64", at::kLong},  {"I32", at::kInt},  {"I16", at::kShort},     {"I8", at::kChar},
      {"U8", at::kByte},   {"BOOL", at::kBool}};
  return kDtypes;
}

bool is_real(const std::string& dtype) {
  const auto known = dtypes().find(dtype);
  return known != dtypes().end() && c10::isFloatingType(known->second);
}

std::string name_of(at::ScalarType dtype, const std::string& tensor) {
  for (const auto& [name, known] : dtypes()) {
    if (known == dtype) return name;
  }
  fail<UsageError>("checkpoint", "{} is {}; a checkpoint holds real numbers and whole numbers only",
                   tensor, c10::toString(dtype));
}

}  // namespace convoy::checkpoint
