#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convoy/tokenizers/json_field.h"
#include "convoy/tokenizers/unicode/regex.h"
#include "convoy/tokenizers/unicode/scanner.h"

namespace convoy::tokenizers {

/// Pattern of a "Replace" or "Split": {"String": ...} or {"Regex": ...}.
class Pattern {
 public:
  explicit Pattern(const JsonField& part);
  bool search(std::string_view text, size_t from, Regex::Match& match) const;

 private:
  std::string string_;
  std::shared_ptr<const Regex> regex_;
};

/// Finds the next match at or behind a place of a text; false: there is none.
using Search = std::function<bool(std::string_view text, size_t from, Regex::Match& match)>;

/// Finds single characters of a class.
Search characters_that(bool (*belongs)(char32_t c));

/// Cuts texts at matches, as "Split" of tokenizer.json does.
class Split {
 public:
  enum class Behavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

  explicit Split(const JsonField& part);
  Split(Search search, Behavior behavior) : search_(std::move(search)), behavior_(behavior) {}

  /// Pieces of the text, in order; what is left out is removed. Pieces may be empty.
  std::vector<Regex::Match> cut(std::string_view text) const;

  /// Returns the scanner that does what this "Split" asks, or null.
  static Scanner scanner_for(const JsonField& part);
  /// Reads the name of a behavior. Throws FileError for another.
  static Behavior behavior_of(const JsonField& part);

 private:
  Search search_;
  Behavior behavior_ = Behavior::Isolated;
  bool invert_ = false;
};

}  // namespace convoy::tokenizers
