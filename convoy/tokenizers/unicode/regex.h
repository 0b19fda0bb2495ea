#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace convoy::tokenizers {

/// A regular expression of Hugging Face's tokenizers (Oniguruma's dialect, Unicode 16), matched by
/// PCRE2. Constant: threads may share it.
class Regex {
 public:
  /// Throws FileError, with `where`, for a mistake in the pattern, and for what the two dialects
  /// understand differently.
  Regex(std::string_view pattern, const std::string& where);
  ~Regex();

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };
  /// Finds the first match that begins at `from` or later; false when there is none. `text` is
  /// well-formed UTF-8. Throws UsageError when the search takes too many steps.
  bool search(std::string_view text, size_t from, Match& match) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace convoy::tokenizers
