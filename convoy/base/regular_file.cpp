#include "convoy/base/regular_file.h"

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy {
namespace fs = std::filesystem;

std::string read_regular_file(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    fail<FileError>("files", "cannot read {}: it is not a regular file", path.string());
  }
  return read_file(path);
}

}  // namespace convoy
