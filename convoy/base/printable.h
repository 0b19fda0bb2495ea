#pragma once

#include <string>
#include <string_view>

namespace convoy {

/// The text as a terminal may be shown it: control characters, line ends among them, and broken
/// UTF-8 as \xNN.
std::string printable(std::string_view text);

}  // namespace convoy
