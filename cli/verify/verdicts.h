#pragma once

#include <optional>
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
  std::string failed;    ///< reason why the machine kept the training from its end; "": it did not
  bool compared = true;  ///< the training ended, so that there are numbers
  std::string refused;   ///< reason why a training does not take the layout; "": it does
  /// Difference of one device in bf16 from one in fp32, where the promise was judged beside it.
  std::optional<conformance::Difference> rounding = {};

  bool holds() const { return refused.empty() && broken.empty() && failed.empty(); }
};

/// Returns whether a training in bf16 may differ by no more than bf16 rounds: it is beyond a
/// promise to rounding, and was not judged beside one device in fp32 yet.
bool may_be_rounding(const Verdict& verdict);

/// Judges a promise again, by tolerances that allow for how far bf16 is from fp32 on one device: in
/// convoy, and in what is compared with it.
void judge_beside(Verdict& verdict, const conformance::Difference& ours,
                  const conformance::Difference& theirs);

/// Prints a table, then a line for each promise that is broken, each training that failed and each
/// layout that is refused.
void print_verdicts(const std::vector<Verdict>& verdicts);

Json to_json(const std::vector<Verdict>& verdicts);

}  // namespace convoy::cli
