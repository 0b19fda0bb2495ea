#pragma once

#include <string>
#include <vector>

namespace convoy::models {

/// Values of `masking` but for `auto`: clm, mlm, plm, rtd.
const std::vector<std::string>& maskings();

/// Values of `masking` that a body can learn by; the first is what `auto` takes.
const std::vector<std::string>& maskings_of(const std::string& body);

/// Bodies that can learn by `masking`, by name; all where it is "".
std::vector<std::string> bodies_that_learn_by(const std::string& masking);

}  // namespace convoy::models
