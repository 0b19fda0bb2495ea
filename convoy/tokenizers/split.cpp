#include "convoy/tokenizers/split.h"

#include <algorithm>
#include <map>

#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {

Pattern::Pattern(const JsonField& part) {
  part.expect_keys({"String", "Regex"});
  if (part.has("Regex")) {
    regex_ = std::make_shared<Regex>(part["Regex"].text(), part["Regex"].where());
  } else {
    string_ = part["String"].text();
  }
}

bool Pattern::search(std::string_view text, size_t from, Regex::Match& match) const {
  if (regex_) return regex_->search(text, from, match);
  const size_t found = string_.empty() ? std::string_view::npos : text.find(string_, from);
  if (found == std::string_view::npos) return false;
  match = {found, found + string_.size()};
  return true;
}

Search characters_that(bool (*belongs)(char32_t c)) {
  return [belongs](std::string_view text, size_t from, Regex::Match& match) {
    while (from < text.size()) {
      const size_t begin = from;
      if (!belongs(next_character(text, from))) continue;
      match = {begin, from};
      return true;
    }
    return false;
  };
}

Split::Split(const JsonField& part)
    : search_([pattern = Pattern(part["pattern"])](auto text, size_t from, Regex::Match& match) {
        return pattern.search(text, from, match);
      }),
      behavior_(behavior_of(part["behavior"])),
      invert_(part.flag("invert", false)) {
  part.expect_keys({"type", "pattern", "behavior", "invert"});
}

Split::Behavior Split::behavior_of(const JsonField& part) {
  static const std::map<std::string, Behavior> kBehaviors{
      {"Removed", Behavior::Removed},
      {"Isolated", Behavior::Isolated},
      {"MergedWithPrevious", Behavior::MergedWithPrevious},
      {"MergedWithNext", Behavior::MergedWithNext},
      {"Contiguous", Behavior::Contiguous}};
  const auto found = kBehaviors.find(part.text());
  if (found == kBehaviors.end()) {
    part.refuse("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  }
  return found->second;
}

Scanner Split::scanner_for(const JsonField& part) {
  const JsonField pattern = part["pattern"];
  const bool plain = part.text("behavior", "") == "Isolated" && !part.flag("invert", false);
  return plain && pattern.has("Regex") ? find_scanner(pattern["Regex"].text()) : nullptr;
}

std::vector<Regex::Match> Split::cut(std::string_view text) const {
  struct Stretch {
    Regex::Match range;
    bool matched = false;
  };
  std::vector<Stretch> stretches;
  size_t done = 0;
  Regex::Match match;
  for (size_t from = 0; from <= text.size() && search_(text, from, match);) {
    if (match.begin > done) stretches.push_back({{done, match.begin}, invert_});
    stretches.push_back({match, !invert_});
    done = match.end;
    from = match.end;
    if (match.begin == match.end) {  // of nothing: look on behind the next character
      if (from == text.size()) break;
      next_character(text, from);
    }
  }
  if (done < text.size()) stretches.push_back({{done, text.size()}, invert_});

  std::vector<Regex::Match> pieces;
  bool before = false;  // whether the last stretch, in the order of the walk, matched
  const auto merge = [&](const Stretch& stretch, bool join) {
    if (join && !pieces.empty()) {
      pieces.back().begin = std::min(pieces.back().begin, stretch.range.begin);
      pieces.back().end = std::max(pieces.back().end, stretch.range.end);
    } else {
      pieces.push_back(stretch.range);
    }
    before = stretch.matched;
  };
  if (behavior_ == Behavior::MergedWithNext) {
    std::reverse(stretches.begin(), stretches.end());
  }
  for (const Stretch& stretch : stretches) {
    switch (behavior_) {
      case Behavior::Removed:
        if (!stretch.matched) pieces.push_back(stretch.range);
        break;
      case Behavior::Isolated:
        pieces.push_back(stretch.range);
        break;
      case Behavior::Contiguous:
        merge(stretch, stretch.matched == before);
        break;
      case Behavior::MergedWithPrevious:
      case Behavior::MergedWithNext:
        merge(stretch, stretch.matched && !before);
    }
  }
  if (behavior_ == Behavior::MergedWithNext) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace convoy::tokenizers
