#include "convoy/data/window_folders.h"

#include "convoy/base/text.h"

namespace convoy::data {

namespace fs = std::filesystem;

fs::path last_window(const fs::path& where) {
  fs::path out;
  int64_t last = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(where, error)) {
    int64_t number = 0;
    std::error_code ignored;
    if (!entry.is_directory(ignored) || !parse_number(entry.path().filename().string(), number)) {
      continue;
    }
    const bool has_rows = fs::exists(entry.path() / "train.parquet", ignored) ||
                          fs::exists(entry.path() / "valid.parquet", ignored);
    if (!has_rows || number <= last) continue;
    last = number;
    out = entry.path();
  }
  return out;
}

}  // namespace convoy::data
