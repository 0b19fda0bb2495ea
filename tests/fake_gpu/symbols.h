#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy::fake_gpu {

/// The address of a symbol of the program itself, exported or not; null when it has none.
void* program_symbol(const std::string& mangled);

/// Where the program's functions of a name as in Place begin, those included that the compiler made
/// of one of them.
std::vector<void*> program_functions(const std::string& name);

/// Where an address lies.
struct Place {
  std::string file;      ///< of the program or library
  std::string function;  ///< demangled, without parameters and template arguments; "" if unknown
  uintptr_t offset = 0;  ///< from the function's begin
};

Place place_of(const void* address);

/// "convoy::comm::Arrivals::bring" of a demangled name with parameters and templates.
std::string short_name(const std::string& demangled);

}  // namespace convoy::fake_gpu
