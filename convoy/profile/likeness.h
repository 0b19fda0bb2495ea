#pragma once

#include <string>

#include "convoy/nn/block.h"

namespace convoy::profile {

/// The same for blocks of one kind and size with inputs of one kind and size; of parameters that
/// are cut, what is here counts.
std::string likeness(const nn::Block& block, const nn::Bundle& in);

}  // namespace convoy::profile
