#include "convoy/data/pattern.h"

#include <glob.h>

namespace convoy::data {

std::vector<std::filesystem::path> matching_files(const std::string& pattern) {
  glob_t found{};
  const int code = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::filesystem::path> paths;
  for (size_t i = 0; code == 0 && i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  return paths;
}

}  // namespace convoy::data
