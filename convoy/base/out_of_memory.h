#pragma once

#include <exception>
#include <string_view>

namespace convoy {

/// Whether torch, or a library of NVIDIA's, failed to get memory: all throw one type for
/// everything.
bool tells_of_memory(std::string_view message);

/// The same of what was thrown, by whomever.
bool is_out_of_memory(const std::exception& error);

}  // namespace convoy
