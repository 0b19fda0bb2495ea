#pragma once

#include <string>

namespace convoy {

/// This machine's name, "this host" when it has none.
std::string host_name();

}  // namespace convoy
