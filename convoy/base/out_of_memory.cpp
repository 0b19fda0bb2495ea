#include "convoy/base/out_of_memory.h"

#include <new>

namespace convoy {

bool tells_of_memory(std::string_view message) {
  for (const char* part : {"not enough memory", "can't allocate memory", "out of memory",
                           "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"}) {
    if (message.find(part) != std::string_view::npos) return true;
  }
  return false;
}

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr || tells_of_memory(error.what());
}

}  // namespace convoy
