#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/models/word_cache.h"

namespace convoy::tokenizers {

/// Memory that one call of encode() uses; models keep theirs in it, so that nothing is allocated
/// for a word.
struct Scratch {
  WordCache cache;
  std::vector<uint64_t> numbers;
  std::vector<uint64_t> more_numbers;
};

/// Turns what a pre-tokenizer calls a word into ids. Constant: threads may share it.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of a word that is not empty.
  virtual void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const = 0;

  /// Whether lengths() knows.
  virtual bool tells_lengths() const { return false; }
  /// Appends how many bytes of the word each of its ids, which are encode()'s, stands for.
  virtual void lengths(std::string_view word, std::span<const int32_t> ids,
                       std::vector<size_t>& lengths) const;
};

/// Encodes a word like `model.encode`, from the cache when the word was seen before.
void encode_cached(const Model& model, std::string_view word, Scratch& scratch,
                   std::vector<int32_t>& ids);

}  // namespace convoy::tokenizers
