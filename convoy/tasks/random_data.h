#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/options/arguments.h"

namespace convoy::tasks {

/// Whether random rows are used because `file` is not there, in a command that trains nothing
/// (ParallelArguments::data_may_be_random). Notes it then; `length`: positions of each row.
bool use_random_data(const std::string& file, const options::ParallelArguments& parallel,
                     int64_t length, std::vector<std::string>& notes);

}  // namespace convoy::tasks
