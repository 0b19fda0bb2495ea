#include "convoy/base/named_file.h"

#include "convoy/base/error.h"

namespace convoy {

void check_named_file(const std::filesystem::path& path) {
  const auto folder = path.parent_path();
  std::error_code failed;
  if (folder.empty() || std::filesystem::is_directory(folder, failed)) return;
  fail<FileError>("files", "cannot write {}: there is no folder {}; try another, or mkdir {}",
                  path.string(), folder.string(), folder.string());
}

}  // namespace convoy
