#pragma once

#include <functional>
#include <optional>
#include <string>

// Compiled kernels in the user's cache, so that the ranks of a later start need not compile.
namespace convoy::gpu {

/// Identity of a compiled kernel: all that its bytes follow from.
struct CubinKey {
  std::string text;
  std::string architecture;
  std::string compiler;  ///< its version
};

/// Returns the kept cubin of a key; nothing where there is none, or where its bytes have changed.
std::optional<std::string> kept_cubin(const CubinKey& key);

/// Keeps a cubin. Where the cache cannot be written nothing happens.
void keep_cubin(const CubinKey& key, const std::string& cubin);

}  // namespace convoy::gpu
