#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// Small files of /proc and /sys. Any of them may be missing, in a container or on another kernel:
// what cannot be read is "" or the fallback, never an error.
namespace convoy::machine {

/// Returns the first line without blanks at its ends.
std::string line_in(const std::filesystem::path& file);

/// Returns the value of the first line "key<separator>value", without blanks at its ends.
std::string value_in(const std::filesystem::path& file, const std::string& key, char separator);

/// Returns the whole number at the front of `text`; a base prefix and what follows are allowed
/// ("0x10de", "16384 kB").
int64_t leading_number(const std::string& text, int64_t fallback);

/// Returns the CPUs of a list such as "0-3,8".
std::vector<int> cpus_in(const std::string& list);

/// Returns the names in a folder, sorted.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace convoy::machine
