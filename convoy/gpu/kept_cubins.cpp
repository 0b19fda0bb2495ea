#include "convoy/gpu/kept_cubins.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/random.h"

namespace convoy::gpu {

namespace {

namespace fs = std::filesystem;

constexpr size_t kSumDigits = 16;

/// Folder of kept kernels, after the XDG base directory specification; empty without a home.
fs::path folder() {
  const auto path_in = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value == nullptr ? fs::path() : fs::path(value);
  };
  if (const auto cache = path_in("XDG_CACHE_HOME"); cache.is_absolute()) {
    return cache / "convoy" / "kernels";
  }
  const auto home = path_in("HOME");
  return home.is_absolute() ? home / ".cache" / "convoy" / "kernels" : fs::path();
}

fs::path file_of(const CubinKey& key) {
  const uint64_t sum = hash_combine(hash_combine(hash_text(key.text), hash_text(key.architecture)),
                                    hash_text(key.compiler));
  return folder() / fmt::format("{}-{:016x}.cubin", key.architecture, sum);
}

std::string sum_of(const CubinKey& key, std::string_view cubin) {
  return fmt::format("{:016x}", hash_combine(hash_text(cubin), hash_text(key.text)));
}

}  // namespace

std::optional<std::string> kept_cubin(const CubinKey& key) {
  std::error_code none;
  if (folder().empty() || !fs::is_regular_file(file_of(key), none)) return std::nullopt;
  try {
    auto bytes = read_file(file_of(key));
    if (bytes.size() < kSumDigits) return std::nullopt;
    const auto sum = bytes.substr(0, kSumDigits);
    bytes.erase(0, kSumDigits);
    return sum == sum_of(key, bytes) ? std::optional(std::move(bytes)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void keep_cubin(const CubinKey& key, const std::string& cubin) {
  if (folder().empty()) return;
  try {
    write_file(file_of(key), sum_of(key, cubin) + cubin);
  } catch (const Error&) {  // a home that is full or read-only: the next start compiles again
  }
}

}  // namespace convoy::gpu
