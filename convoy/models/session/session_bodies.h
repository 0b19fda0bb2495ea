#pragma once

#include <string>
#include <vector>

namespace convoy::models {

/// What `masking` can be, less `auto`: clm, mlm, plm, rtd.
const std::vector<std::string>& maskings();

/// What a body of session models can learn by; the first is what `auto` takes.
const std::vector<std::string>& maskings_of(const std::string& body);

/// The bodies that can, by name; all where `masking` is "".
std::vector<std::string> bodies_that_learn_by(const std::string& masking);

}  // namespace convoy::models
