#pragma once

#include <string>

namespace convoy::cli {

/// In single quotes of a shell.
std::string quoted(std::string text);

/// A word as one types it into a shell: in quotes where it needs them.
std::string shell_word(const std::string& text);

}  // namespace convoy::cli
