#pragma once

#include <memory>

#include "convoy/data/loader.h"
#include "convoy/data/token_file.h"
#include "convoy/train/batches.h"

namespace convoy::tasks {

/// Blocks of ids as rows: `input_ids` [rows, block_size] int64. `blocks`: where each begins.
std::shared_ptr<train::Dataset> make_block_dataset(std::shared_ptr<data::TokenStore> ids,
                                                   std::vector<int64_t> blocks, int64_t block_size);

/// Texts of `count` random ids below `vocab_size`, the same for the same seed.
data::TokenTexts random_texts(int64_t count, int64_t vocab_size, uint64_t seed);

}  // namespace convoy::tasks
