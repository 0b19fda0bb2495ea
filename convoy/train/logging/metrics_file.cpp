#include "convoy/train/logging/metrics_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/train/logging/metrics_text.h"

namespace convoy::train {

namespace {

namespace fs = std::filesystem;

/// Writes a file anew, whole or not at all. Returns whether it could.
bool replace(const fs::path& file, const std::string& text) {
  auto temporary = file;
  temporary += fmt::format(".{}.tmp", ::getpid());
  std::ofstream out(temporary);
  out << text;
  out.close();
  std::error_code error;
  if (out) fs::rename(temporary, file, error);
  if (out && !error) return true;
  fs::remove(temporary, error);
  return false;
}

}  // namespace

std::shared_ptr<Callback> make_metrics_file(const fs::path& file,
                                            std::function<void(const std::string&)> warn) {
  if (file.extension() != ".prom") {
    fail<UsageError>("train",
                     "output.metrics_file = {} does not end in .prom; node_exporter reads no other "
                     "files",
                     file.string());
  }
  const auto folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored) || fs::is_directory(file, ignored)) {
    fail<UsageError>("train",
                     "output.metrics_file = {} is in no folder, or is one; try a file in a folder "
                     "that is there, such as node_exporter's --collector.textfile.directory",
                     file.string());
  }
  return make_metrics_text(
      [file, warn = std::move(warn), is_told = false](const std::string& text) mutable {
        if (replace(file, text) || std::exchange(is_told, true)) return;
        warn(fmt::format("output.metrics_file = {} cannot be written; training goes on without it",
                         file.string()));
      });
}

}  // namespace convoy::train
