#pragma once

#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/conformance/contract.h"

namespace convoy::cli {

/// Comparison of a layout with one device.
struct Verdict {
  std::string layout;
  conformance::Contract contract;
  conformance::Difference difference;
  std::vector<std::string> broken;  ///< sentences
  std::string refused;              ///< why a training does not take the layout; "": it does

  bool holds() const { return refused.empty() && broken.empty(); }
};

/// Prints a table, then a line for each promise that is broken and each layout that is refused.
void print_verdicts(const std::vector<Verdict>& verdicts);

Json to_json(const std::vector<Verdict>& verdicts);

}  // namespace convoy::cli
