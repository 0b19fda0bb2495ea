#pragma once

namespace convoy::parallel {

/// Largest cost that is taken: sums of costs must stay finite numbers.
constexpr double kMostCost = 1e100;

}  // namespace convoy::parallel
