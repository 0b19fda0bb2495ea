#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace convoy::trials {

/// Option of a run with the values to try.
struct Dimension {
  std::string option;
  std::vector<std::string> values = {};  ///< to choose among; empty: the range
  double low = 0, high = 0;              ///< range, bounds included
  bool whole = false;                    ///< whole numbers of the range alone

  /// Range that is drawn from by the logarithm: both bounds are above 0.
  bool is_log() const { return low > 0; }
};

/// Options of a trial with their values.
using Options = std::map<std::string, std::string>;

/// Reads "learning_rate=1e-4..1e-2" (a range; of whole numbers where both bounds are) or
/// "model.body=sasrec,gpt2" (values). Throws UsageError for another text.
Dimension parse_dimension(const std::string& text);

/// Draws the options of `number` trials. In each dimension the trials lie in equal parts of the
/// range, one in each (Latin hypercube sampling), or have all values about equally often. Fewer
/// trials where the dimensions have fewer combinations. None has the options `taken`. A function of
/// `seed`.
std::vector<Options> draw(const std::vector<Dimension>& dimensions, int64_t number, uint64_t seed,
                          const Options& taken = {});

/// Value as the dimension spells it: "1e-3" for 0.001 where that is one of its values.
std::string spelled(const Dimension& dimension, const std::string& value);

}  // namespace convoy::trials
