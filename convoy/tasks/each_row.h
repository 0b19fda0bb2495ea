#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "convoy/job/job.h"
#include "convoy/train/checkpoints/model_files.h"
#include "convoy/train/trainer.h"

namespace convoy::tasks {

/// Computes numbers for the first `most` rows of `data` (0 = all), on rank 0 in their order.
/// `numbers` gives [B, width] fp64 from a micro-batch's outputs and its rows [B] int64; a number
/// that is not finite is an error that names the row (from 1) as `what`. `mode`: see
/// train::Trainer::predict().
void each_row(
    train::Trainer& trainer, const dataset::Dataset& data, int64_t most, int64_t width,
    const char* what,
    const std::function<at::Tensor(const nn::Bundle& out, const at::Tensor& rows)>& numbers,
    const std::function<void(int64_t row, std::span<const double> numbers)>& use,
    nn::Mode mode = nn::Mode::Predict);

}  // namespace convoy::tasks
