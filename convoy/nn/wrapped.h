#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace convoy::nn {

/// Remembers that `wrapper` ("DistributedDataParallel", ...) spreads this module's work already,
/// for as long as the returned mark lives. Throws UsageError when another wrapper does, or there is
/// no module.
std::shared_ptr<void> mark_wrapped(const torch::nn::Module* module, const std::string& wrapper);

/// Throws UsageError when a wrapper spreads the work of this module: a second one would reduce its
/// gradients twice.
void check_not_wrapped(const torch::nn::Module& module);

}  // namespace convoy::nn
