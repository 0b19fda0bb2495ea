#pragma once

namespace convoy::tokenizers::tables {

// Written by scripts/unicode_tables.py: streams of whole numbers, 7 bits a byte, as base64.
extern const char* const kCategories;        ///< runs: length, category
extern const char* const kBertFlags;         ///< runs: length, flags
extern const char* const kCombiningClasses;  ///< runs: length, class
extern const char* const kDecompositions;    ///< step, lengths of both, differences
extern const char* const kCompositions;      ///< step, difference of the first, second
extern const char* const kLowerCase;         ///< step, length, differences

}  // namespace convoy::tokenizers::tables
