#pragma once

#include <string>

namespace convoy {

/// Name of this machine; "this host" when it has none.
std::string host_name();

}  // namespace convoy
