#pragma once

#include <cstdint>
#include <string>

#include "convoy/base/text.h"

namespace convoy::prepare {

/// Column whose kind was guessed as categorical, though most of its values are numbers.
struct MostlyNumbers {
  std::string name;
  std::string place, other;  ///< the first value that is no number, and where it stands
  int64_t numbers = 0, values = 0;

  /// Warning about the column, which is a `feature` and whose kind the option `flag` gives.
  std::string warning(const char* feature, const char* flag) const {
    return fmt::format(
        "{} '{}' became categorical, as {} holds '{}'; {} of its {} values are numbers; try {} "
        "{}:continuous once that is mended, or {}:categorical if it is meant",
        feature, name, place, other, human_count(numbers), human_count(values), flag, name, name);
  }
};

}  // namespace convoy::prepare
