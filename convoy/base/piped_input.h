#pragma once

#include <string>

namespace convoy {

/// A name of `input` under which it can be opened again and again, by this process and by those
/// that it starts: a pipe, a terminal or "-" (the standard input) is read to its end first, into a
/// file without a name that is there as long as this process. Files and folders, and what is not
/// there, keep their name. Throws FileError.
std::string lasting_input(const std::string& input);

/// Name of an input for people: "the piped input" where it is what lasting_input() read.
std::string input_name(const std::string& input);

/// Whether lasting_input() would read it.
bool is_piped(const std::string& input);

}  // namespace convoy
