#pragma once

#include <string>

namespace convoy::fake_gpu {

/// An error of the program in its use of the device: told on stderr and in the report file, and
/// thrown as c10::Error unless mode=count.
void misused(const std::string& what);

/// The same where nothing may be thrown.
void misused_quietly(const std::string& what) noexcept;

/// Errors so far, and the text of the first.
long num_misuses();
std::string first_misuse();
void forget_misuses();

}  // namespace convoy::fake_gpu
