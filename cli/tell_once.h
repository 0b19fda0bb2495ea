#pragma once

#include <string>

#include "convoy/launch/environment.h"

namespace convoy::cli {

/// Writes `line` about `mistake` to standard error once per host. All ranks that a launcher started
/// see the same mistake of a command; the first of them on a host writes, and waits up to 3 seconds
/// for the others, which then write nothing.
void tell_once(const std::string& mistake, const std::string& line,
               const launch::RankEnvironment& environment);

}  // namespace convoy::cli
