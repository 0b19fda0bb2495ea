#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy::tasks {

/// A row of an evaluation with the target that it asks for.
struct TargetRow {
  int64_t row = 0;     ///< of the data
  int64_t target = 0;  ///< item id of the data
  int64_t owner = 0;   ///< whose it is; the row itself where the data do not say
  int64_t length = 0;  ///< items before the target in the row, without context
  int64_t before = 0;  ///< in the whole history of the owner, where the data say, else `length`
};

/// Reads the rows of `file` that have a target, in their order. `most`: items of a row that count,
/// its first; 0 = all. Throws FileError.
std::vector<TargetRow> read_target_rows(const std::string& file, const std::string& item_column,
                                        const std::string& owner_column, int64_t most);

/// Returns keys by which rows of two evaluations are matched: their persons, targets and places in
/// the history, by the ids of the interactions as far as they lie beside `file`.
std::vector<uint64_t> keys_of(const std::vector<TargetRow>& rows, const std::string& file);

}  // namespace convoy::tasks
