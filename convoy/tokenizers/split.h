#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/load/json_field.h"
#include "convoy/tokenizers/unicode/regex.h"
#include "convoy/tokenizers/unicode/scanner.h"

namespace convoy::tokenizers {

/// The pattern of a "Replace" or "Split": {"String": ...} or {"Regex": ...}.
class Pattern {
 public:
  explicit Pattern(const JsonField& part);
  bool search(std::string_view text, size_t from, Regex::Match& match) const;

 private:
  std::string string_;
  std::shared_ptr<const Regex> regex_;
};

/// "Split" of tokenizer.json.
class Split {
 public:
  explicit Split(const JsonField& part);

  /// Where the text is cut, in order; what is left out is removed. Pieces may be empty.
  std::vector<Regex::Match> cut(std::string_view text) const;

  /// The scanner that does what this "Split" asks, or null.
  static Scanner scanner_for(const JsonField& part);

 private:
  enum class Behavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

  Pattern pattern_;
  Behavior behavior_ = Behavior::Isolated;
  bool invert_ = false;
};

}  // namespace convoy::tokenizers
