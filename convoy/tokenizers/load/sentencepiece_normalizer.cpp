#include "convoy/tokenizers/load/sentencepiece_normalizer.h"

#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {

namespace {

Trie user_defined(const SentencePieceFile& file) {
  std::vector<std::pair<std::string_view, int32_t>> texts;
  for (const auto& piece : file.pieces) {
    if (piece.type == SentencePieceFile::kUserDefined) texts.emplace_back(piece.text, 0);
  }
  return Trie(std::move(texts));
}

}  // namespace

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceFile& file)
    : map_(std::string(file.chars_map)),
      kept_(user_defined(file)),
      space_(file.escape_whitespaces ? "\xE2\x96\x81" : " "),
      space_in_front_(file.add_dummy_prefix && !file.space_behind),
      space_behind_(file.add_dummy_prefix && file.space_behind),
      removes_spaces_(file.remove_extra_whitespaces) {}

CharsMap::Rule SentencePieceNormalizer::front(std::string_view text) const {
  if (const size_t length = kept_.longest(text); length > 0)
    return {length, text.substr(0, length)};
  if (const auto rule = map_.longest(text); rule.length > 0) return rule;
  size_t length = 0;
  next_character(text, length);
  return {length, text.substr(0, length)};
}

void SentencePieceNormalizer::operator()(std::string_view text, std::string& out) const {
  while (removes_spaces_ && !text.empty()) {
    const auto rule = front(text);
    if (rule.to != " ") break;
    text.remove_prefix(rule.length);
  }
  if (text.empty()) return;
  if (space_in_front_) out += space_;
  bool after_space = removes_spaces_;
  while (!text.empty()) {
    auto [length, to] = front(text);
    text.remove_prefix(length);
    while (after_space && to.starts_with(' ')) to.remove_prefix(1);
    for (const char c : to) {
      if (c == ' ') {
        out += space_;
      } else {
        out += c;
      }
    }
    if (!to.empty()) after_space = removes_spaces_ && to.ends_with(' ');
  }
  while (removes_spaces_ && out.ends_with(space_)) out.resize(out.size() - space_.size());
  if (space_behind_) out += space_;
}

}  // namespace convoy::tokenizers
