#pragma once

#include <cstdint>

#include "convoy/data/parquet_files.h"

// Context of rows of sessions: earlier events that are read and do not train there.
namespace convoy::prepare {

/// Adds kNumContext to what is read of files that have it. Throws FileError where it is no whole
/// number a row, or the first file lacks it and another has it.
void select_context(const data::ParquetFiles& file, data::Selection& selection);

/// Number of context items at the start of a row of `length` items; 0 where the column is not read.
/// Values outside the row are clamped.
int64_t context_of(const data::Rows& rows, int64_t row, int64_t length);

}  // namespace convoy::prepare
