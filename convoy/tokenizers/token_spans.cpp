#include "convoy/tokenizers/token_spans.h"

#include "convoy/base/error.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {
namespace {

/// Maps tokens to the bytes of the text that they stand for.
class Follower {
 public:
  Follower(const TokenizerParts& parts, std::string_view text, std::vector<int32_t>& ids,
           std::vector<TokenSpan>& spans)
      : parts_(parts), text_(text), ids_(ids), spans_(spans) {}

  void run() {
    std::vector<TokenFinder::Stretch> stretches;
    parts_.tokens_of_text.cut(text_, stretches);
    for (const auto& [begin, end, id] : stretches) {
      if (id != Vocabulary::kNone) {
        put(id, {begin, end});
      } else {
        normalize_stretch(begin, end);
      }
    }
  }

 private:
  void put(int32_t id, TokenSpan span) {
    ids_.push_back(id);
    spans_.push_back(span);
  }

  /// Bytes of the text that bytes [begin, end) of the normalized one come from; `from`: offsets of
  /// its characters.
  TokenSpan span_of(const std::vector<size_t>& from, size_t begin, size_t end) const {
    size_t last = from[end - 1];
    next_character(text_, last);
    return {from[begin], last};
  }

  void normalize_stretch(size_t begin, size_t end) {
    std::string normalized(text_.substr(begin, end - begin)), next;
    std::vector<size_t> from, of_next;
    for (size_t at = 0; at < normalized.size();) {
      const size_t here = at;
      next_character(normalized, at);
      from.insert(from.end(), at - here, begin + here);
    }
    for (const auto& step : parts_.normalizers) {
      next.clear();
      of_next.clear();
      step.follow(normalized, next, of_next);
      for (size_t& at : of_next) at = from[at];
      normalized.swap(next);
      from.swap(of_next);
    }
    if (normalized.empty()) return;
    std::vector<TokenFinder::Stretch> stretches;
    parts_.tokens_of_normalized.cut(normalized, stretches);
    for (const auto& [first, last, id] : stretches) {
      if (id != Vocabulary::kNone) {
        put(id, span_of(from, first, last));
        continue;
      }
      const auto at = from.begin();
      encode_words(
          std::string_view(normalized).substr(first, last - first),
          {at + static_cast<std::ptrdiff_t>(first), at + static_cast<std::ptrdiff_t>(last)},
          /*at_start=*/begin == 0 && first == 0);
    }
  }

  void encode_words(std::string_view words, std::vector<size_t> from, bool at_start) {
    Pieces pieces;
    pieces.text = words;
    pieces.at_start = at_start;
    pieces.from = std::move(from);
    pieces.follows = true;
    pieces.pieces.assign(1, {0, words.size()});
    for (const auto& step : parts_.pre_tokenizers.steps) step(pieces);
    std::vector<int32_t> ids;
    std::vector<size_t> lengths;
    for (const auto& piece : pieces.pieces) {
      ids.clear();
      lengths.clear();
      const auto word = pieces.of(piece);
      parts_.model->encode(word, scratch_, ids);
      parts_.model->lengths(word, ids, lengths);
      size_t at = piece.begin;
      for (size_t i = 0; i < ids.size(); ++i) {
        put(ids[i], span_of(pieces.from, at, at + lengths[i]));
        at += lengths[i];
      }
    }
  }

  const TokenizerParts& parts_;
  std::string_view text_;
  std::vector<int32_t>& ids_;
  std::vector<TokenSpan>& spans_;
  Scratch scratch_;
};

}  // namespace

void check_tells_spans(const TokenizerParts& parts) {
  const auto refuse = [](const char* what, const char* expected) {
    fail<UsageError>("tokenizer",
                     "it is not known which part of a text the tokens of this tokenizer stand for: "
                     "its {}; expected {}; try the tokenizer.json of a model that chats",
                     what, expected);
  };
  for (const auto& step : parts.normalizers) {
    if (!step.follow) refuse("normalizer rewrites texts", "NFC, Prepend or Replace");
  }
  if (!parts.model->tells_lengths() || parts.model_inside != nullptr) {
    refuse("model is of another kind", "BPE without marks of the parts of words");
  }
}

void encode_with_spans(const TokenizerParts& parts, std::string_view text,
                       std::vector<int32_t>& ids, std::vector<TokenSpan>& spans) {
  check_tells_spans(parts);
  if (well_formed_prefix(text) < text.size()) {
    fail<UsageError>("tokenizer", "the text is not UTF-8 from byte {}; expected UTF-8",
                     well_formed_prefix(text));
  }
  Follower(parts, text, ids, spans).run();
}

}  // namespace convoy::tokenizers
