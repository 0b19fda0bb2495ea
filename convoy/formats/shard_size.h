#pragma once

#include <cstdint>
#include <string>

namespace convoy::formats {

/// Hugging Face's.
inline constexpr const char* kMaxShardSize = "5GB";

/// Bytes of a size such as 4096, 500MB or 2GiB; 0 for what is none.
int64_t size_bytes(const std::string& text);

/// Bytes of a size such as 5GB, 500MB or 2GiB. Throws UsageError.
int64_t shard_bytes(const std::string& max_shard_size);

}  // namespace convoy::formats
