#pragma once

// Internal to the room.

#include <arrow/status.h>
#include <arrow/util/io_util.h>

#include <cstring>
#include <string>

namespace convoy::data {

/// What a status says went wrong: the system's own word where there is one ("Permission denied"),
/// for Arrow's says only that opening failed.
inline std::string arrow_trouble(const arrow::Status& status) {
  const int error = arrow::internal::ErrnoFromStatus(status);
  return error != 0 ? std::strerror(error) : status.message();
}

}  // namespace convoy::data
