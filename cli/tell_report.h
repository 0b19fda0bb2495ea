#pragma once

#include <string>

#include "convoy/base/json.h"

namespace convoy::cli {

/// Ends a command that compares: writes `json` and the machine it is of into the file `output`, if
/// that is named, and prints the same where `as_json`, else the machine and `text`.
void tell_report(Json json, const std::string& text, const std::string& output, bool as_json);

}  // namespace convoy::cli
