#pragma once

#include <string>

#include "convoy/launch/environment.h"

namespace convoy::cli {

/// Writes `line` about `mistake` to the standard error, unless another rank that the same launcher
/// started on this host is writing about the same: what is wrong with a command is wrong for all.
/// The one that writes waits a little for the others, which come to it instead.
void tell_once(const std::string& mistake, const std::string& line,
               const launch::RankEnvironment& environment);

}  // namespace convoy::cli
