#pragma once

#include <string>

namespace convoy::cli {

/// Returns `text` in single quotes, as a shell reads it.
std::string quoted(std::string text);

/// A word as one types it into a shell: in quotes where it needs them.
std::string shell_word(const std::string& text);

}  // namespace convoy::cli
