#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/data/loader.h"
#include "convoy/data/mixture.h"
#include "convoy/data/token_file.h"
#include "convoy/dataset/batches.h"

namespace convoy::tasks {

/// Blocks of ids.
struct TokenBlocks {
  std::shared_ptr<data::TokenStore> ids;
  std::vector<int64_t> begins;  ///< of each block in `ids`
  /// Ends of all texts in `ids`, where none sees another (nn/documents.h); null: a block is one.
  std::shared_ptr<const std::vector<int64_t>> ends = nullptr;
  /// Ids that the model has, where another program's are looked at row by row, and their file.
  int64_t num_ids = 0;
  std::string file = "";
};

/// Blocks of all `parts` as rows, one part after the other: `input_ids` [rows, block_size] int64,
/// and where texts stand apart `documents` and `positions`, of the same shape. With a mixture an
/// epoch has the rows that it draws.
std::shared_ptr<dataset::Dataset> make_block_dataset(std::vector<TokenBlocks> parts,
                                                     int64_t block_size,
                                                     std::optional<data::Mixture> mixture = {});

/// Throws UsageError for an id that the model does not have.
[[noreturn]] void refuse_token(const std::string& file, int64_t id, int64_t num_ids);

/// Texts of `count` random ids below `vocab_size`, the same for the same seed.
data::TokenTexts random_texts(int64_t count, int64_t vocab_size, uint64_t seed);

}  // namespace convoy::tasks
