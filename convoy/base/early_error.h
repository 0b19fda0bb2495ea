#pragma once

#include <exception>
#include <functional>

namespace convoy {

/// Who hears of an error that will end the program, before what it was doing lets go of it: a disk
/// may still be at work with what is owned here. Called with that very error, which then is thrown.
void hear_early_errors(std::function<void(const std::exception&)> hear);

/// Nobody may be there to hear it.
void tell_early(const std::exception& error);

}  // namespace convoy
