#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/plan/split.h"

namespace convoy::cli {

/// Options of a run by section.name, each with a value.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// What a split makes of a run's options: what it says, and the defaults of others that decide the
/// same.
Settings settings_of(const plan::Split& split, const OptionTable& table);

/// Sets them.
void set(OptionTable& table, const Settings& settings);

}  // namespace convoy::cli
