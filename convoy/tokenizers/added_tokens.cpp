#include "convoy/tokenizers/added_tokens.h"

#include "convoy/tokenizers/models/vocabulary.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {

AddedToken read_added_token(const JsonField& part, int32_t id) {
  part.expect_keys(
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"});
  if (part.flag("single_word", false)) part["single_word"].refuse("false: it is not supported");
  AddedToken token;
  token.content = part["content"].text();
  token.id = id;
  token.lstrip = part.flag("lstrip", false);
  token.rstrip = part.flag("rstrip", false);
  token.special = part.flag("special", false);
  token.normalized = part.flag("normalized", !token.special);
  return token;
}

void TokenFinder::add(const AddedToken& token, std::string_view content) {
  if (content.empty()) return;
  int32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    int32_t next = 0;
    for (const auto& [label, to] : nodes_[node].next) {
      if (label == byte) next = to;
    }
    if (next == 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_[node].next.emplace_back(byte, next);
      nodes_.emplace_back();
      if (node == 0) root_[byte] = next;
    }
    node = next;
  }
  if (nodes_[node].token >= 0) return;
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back({std::string(content), token});
}

void TokenFinder::cut(std::string_view text, std::vector<Stretch>& stretches) const {
  const Characters& characters = Characters::get();
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    int32_t node = root_[static_cast<unsigned char>(text[at])];
    if (node == 0) {
      ++at;
      continue;
    }
    int32_t best = -1;
    for (size_t end = at + 1; node != 0; ++end) {
      if (nodes_[node].token >= 0) best = nodes_[node].token;
      if (end == text.size()) break;
      const auto byte = static_cast<unsigned char>(text[end]);
      int32_t next = 0;
      for (const auto& [label, to] : nodes_[node].next) {
        if (label == byte) next = to;
      }
      node = next;
    }
    if (best < 0) {
      ++at;
      continue;
    }
    const auto& [content, token] = tokens_[best];
    size_t begin = at;
    size_t end = at + content.size();
    at = end;
    if (token.lstrip) {
      while (begin > done) {
        size_t before = previous_character(text, begin);
        const size_t start = before;
        if (!characters.is_space(next_character(text, before))) break;
        begin = start;
      }
    }
    if (token.rstrip) {
      while (end < text.size()) {
        size_t next = end;
        if (!characters.is_space(next_character(text, next))) break;
        end = next;
      }
    }
    if (done < begin) stretches.push_back({done, begin, Vocabulary::kNone});
    stretches.push_back({begin, end, token.id});
    done = end;
    if (at < done) at = done;
  }
  if (done < text.size()) stretches.push_back({done, text.size(), Vocabulary::kNone});
}

}  // namespace convoy::tokenizers
