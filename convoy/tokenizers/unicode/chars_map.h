#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace convoy::tokenizers {

/// SentencePiece's map of characters (precompiled_charsmap): the size of a double array in the
/// format of Darts-clone, the array, and the texts that its values point to, each ended by a zero.
class CharsMap {
 public:
  /// Whether no step leads out of the array, and no value out of the texts.
  static bool is_sound(std::string_view bytes);

  /// `bytes` must be sound; without any there are no rules.
  explicit CharsMap(std::string bytes) : bytes_(std::move(bytes)) {}

  struct Rule {
    size_t length = 0;    ///< bytes that are replaced; 0: there is no rule
    std::string_view to;  ///< by these
  };
  /// Returns the rule for the longest, or the shortest, beginning of `text` that has one.
  Rule longest(std::string_view text) const { return find(text, /*shortest=*/false); }
  Rule shortest(std::string_view text) const { return find(text, /*shortest=*/true); }

 private:
  Rule find(std::string_view text, bool shortest) const;

  std::string bytes_;
};

}  // namespace convoy::tokenizers
