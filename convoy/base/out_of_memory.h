#pragma once

#include <exception>
#include <string_view>

namespace convoy {

/// Whether a message of torch, or of a library of NVIDIA's, says that memory ran out: all throw one
/// type for everything.
bool tells_of_memory(std::string_view message);

/// Whether any library threw `error` because memory ran out.
bool is_out_of_memory(const std::exception& error);

}  // namespace convoy
