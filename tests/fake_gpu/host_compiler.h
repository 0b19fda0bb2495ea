#pragma once

#include <string>

namespace convoy::fake_gpu {

/// Compiles C++ for the processor; returns the library's path. It is kept between processes: a
/// compiler takes longer than a test. Throws c10::Error with the compiler's messages.
std::string compile_on_host(const std::string& source);

/// Opens a library that compile_on_host() has made.
void* open_library(const std::string& path);

}  // namespace convoy::fake_gpu
