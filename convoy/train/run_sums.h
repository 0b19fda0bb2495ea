#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "convoy/dataset/batches.h"
#include "convoy/parallel/strategy/strategy.h"

// Sums by which `convoy compare` finds where two runs part: equal in every layout that reads the
// same rows, or holds the same bits.
namespace convoy::train {

/// Sum over the rows of a step that this process read: of their places in the global batch and
/// their values, without padding and derived columns. Those of all ranks and steps add up, modulo
/// 2^64.
uint64_t sum_of_rows(const dataset::StepBatch& batch, int64_t step);

/// Sum over the first rows of the first epoch's order, which tells other data of as many rows. It
/// depends on neither batch size nor ranks. `options`: of the run's stream.
uint64_t sum_of_first_rows(const dataset::Dataset& data, data::StreamOptions options);

/// Checksum of the weights that adapters are of, with the dtype that it was taken in; "" without
/// adapters. Collective.
std::string sum_of_base(parallel::Strategy& strategy);

/// Checksum of each weight, by name. Collective.
std::map<std::string, uint64_t> sums_of_weights(parallel::Strategy& strategy);

/// Sixteen hexadecimal digits: JSON's numbers have 53 bits in most readers.
std::string sum_text(uint64_t sum);

}  // namespace convoy::train
