#pragma once

#include <exception>
#include <functional>

namespace convoy {

/// Sets a function that gets an error that will end the program, before its stack unwinds: a disk
/// may still be at work with memory that is owned there. The error is thrown afterwards.
void hear_early_errors(std::function<void(const std::exception&)> hear);

/// Calls that function, if one is set.
void tell_early(const std::exception& error);

}  // namespace convoy
