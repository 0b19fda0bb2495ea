#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

// Names in the folder in which a launcher keeps memory for copies of its ranks' state.
namespace convoy {

inline constexpr std::string_view kMemoryLink = "memory-";  ///< then the number of the file
/// File that the launcher leaves there after a failure that came again.
inline constexpr const char* kInDoubt = "in_doubt";

/// Name of the link to a file in memory.
inline std::string memory_link(int number) {
  return fmt::format("{}{}", kMemoryLink, number);
}

}  // namespace convoy
