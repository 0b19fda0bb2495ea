#pragma once

#include <string>

#include "convoy/base/error.h"

namespace convoy::checkpoint {

/// Text of an error, without the component that it begins with.
inline std::string reason_of(const FileError& error) {
  const std::string text = error.what();
  const auto end = text.starts_with("[") ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace convoy::checkpoint
