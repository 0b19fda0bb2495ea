#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "convoy/base/error.h"

/// One input of a fuzz target, libFuzzer's entry point: build with clang and -fsanitize=fuzzer to
/// fuzz for hours, or with replay.cpp to run the corpus and some thousands of mutations of it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace convoy::fuzz {

/// Runs `read` on foreign bytes. Mistakes in them may only show as UsageError or FileError;
/// anything else flies on and ends the program.
template <class Read>
int expect_plain_errors(const uint8_t* data, size_t size, const Read& read) {
  try {
    read(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const FileError&) {
  } catch (const UsageError&) {
  }
  return 0;
}

}  // namespace convoy::fuzz
