#pragma once

#include "convoy/optim/optimizer.h"

// Functions that make the optimizers.
namespace convoy::optim {

/// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019) with both moments
/// in fp32: on a processor in one pass over the stretch, which also rounds the new weights to bf16;
/// elsewhere by torch's fused kernel.
OptimizerPtr make_adamw(const Settings& settings);

/// AdamW with both moments in bf16, rounded stochastically: half of the memory. An update computes
/// in fp32 and uses the moments as they are before they are rounded. On a processor in one pass
/// over the stretch, elsewhere by adamw_bf16_by_operations().
OptimizerPtr make_adamw_bf16(const Settings& settings);

/// Update of make_adamw_bf16() by torch's operations, on any device; weights may differ in their
/// last bits, but the random draws are the same.
void adamw_bf16_by_operations(const FlatRange& stretch, const StepNumbers& numbers,
                              const Settings& settings);

/// Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023) with its one moment in
/// fp32: on a processor in one pass over the stretch, elsewhere by lion_by_operations().
OptimizerPtr make_lion(const Settings& settings);

/// Update of make_lion() by torch's operations, on any device; bits may differ.
void lion_by_operations(const FlatRange& stretch, const StepNumbers& numbers,
                        const Settings& settings);

}  // namespace convoy::optim
