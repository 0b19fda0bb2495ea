#include "convoy/tokenizers/pre_tokenizer.h"

#include "convoy/tokenizers/models/byte_alphabet.h"
#include "convoy/tokenizers/split.h"
#include "convoy/tokenizers/unicode/scanner.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {
namespace {

/// Replaces every piece by the pieces that `cut(piece, add)` adds.
template <class Cut>
void cut_pieces(Pieces& pieces, const Cut& cut) {
  pieces.spare.clear();
  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) pieces.spare.push_back({begin, end});
  };
  for (const Pieces::Piece& piece : pieces.pieces) cut(piece, add);
  pieces.pieces.swap(pieces.spare);
}

/// Rewritten text of the pieces, with the offsets it comes from.
class Rewritten {
 public:
  explicit Rewritten(Pieces& pieces) : pieces_(pieces) {}

  /// Appends text that stands for the character that begins at byte `at` of the pieces.
  void put(std::string_view text, size_t at) {
    text_ += text;
    if (pieces_.follows) from_.resize(text_.size(), pieces_.from[at]);
  }
  /// Appends bytes of the pieces as they are.
  void keep(size_t begin, size_t end) {
    text_ += pieces_.text.substr(begin, end - begin);
    if (!pieces_.follows) return;
    const auto first = pieces_.from.begin();
    from_.insert(from_.end(), first + static_cast<std::ptrdiff_t>(begin),
                 first + static_cast<std::ptrdiff_t>(end));
  }
  size_t size() const { return text_.size(); }
  /// Replaces the pieces' text by this one.
  void finish() {
    pieces_.own = std::move(text_);
    pieces_.text = pieces_.own;
    pieces_.from = std::move(from_);
  }

 private:
  Pieces& pieces_;
  std::string text_;
  std::vector<size_t> from_;
};

/// Rewrites every piece: `rewrite(piece, is_first, out)` appends its new text.
template <class Rewrite>
void rewrite_pieces(Pieces& pieces, const Rewrite& rewrite) {
  Rewritten text(pieces);
  bool first = true;
  for (Pieces::Piece& piece : pieces.pieces) {
    const size_t begin = text.size();
    rewrite(piece, first, text);
    piece = {begin, text.size()};
    first = false;
  }
  text.finish();
}

PreTokenizer scan(Scanner scanner) {
  return [scanner](Pieces& pieces) {
    cut_pieces(pieces, [&](const Pieces::Piece& piece, const auto& add) {
      const std::string_view text = pieces.of(piece);
      for (size_t at = 0; at < text.size();) {
        const size_t end = scanner(text, at);
        add(piece.begin + at, piece.begin + end);
        at = end;
      }
    });
  };
}

PreTokenizer cut_by(Split split) {
  return [split = std::move(split)](Pieces& pieces) {
    cut_pieces(pieces, [&](const Pieces::Piece& piece, const auto& add) {
      for (const auto& cut : split.cut(pieces.of(piece))) {
        add(piece.begin + cut.begin, piece.begin + cut.end);
      }
    });
  };
}

PreTokenizer cut_by_pattern(const JsonField& part) {
  if (const Scanner scanner = Split::scanner_for(part)) return scan(scanner);
  return cut_by(Split(part));
}

/// Whether Rust's char::is_numeric() holds, whose digits are those of Unicode 17.
bool is_numeric(char32_t c) {
  const bool is_newer = (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
  return is_newer || Characters::get().is_number(c);
}

bool is_punctuation(char32_t c) {
  return Characters::get().is_bert_punctuation(c);
}

PreTokenizer cut_digits(const JsonField& part) {
  part.expect_keys({"type", "individual_digits"});
  const bool each = part.flag("individual_digits", false);
  return cut_by(Split(characters_that(is_numeric),
                      each ? Split::Behavior::Isolated : Split::Behavior::Contiguous));
}

PreTokenizer cut_punctuation(const JsonField& part) {
  part.expect_keys({"type", "behavior"});
  const auto behavior =
      part.has("behavior") ? Split::behavior_of(part["behavior"]) : Split::Behavior::Isolated;
  return cut_by(Split(characters_that(is_punctuation), behavior));
}

/// Class of a character to the regular expression \w+|[^\w\s]+ of Rust.
enum class WordClass { Space, Word, Other };

WordClass word_class(char32_t c) {
  const Characters& characters = Characters::get();
  if (characters.is_space(c)) return WordClass::Space;
  const Category category = characters.category(c);
  // Letters and marks; also signs that Unicode calls alphabetic, and joiners.
  const bool is_circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                          (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  const bool is_joiner = c == 0x200C || c == 0x200D;
  const bool is_word = category <= Nl || category == Pc || is_circled || is_joiner;
  return is_word ? WordClass::Word : WordClass::Other;
}

/// Cuts at white space, and between word characters and others.
void cut_words(Pieces& pieces) {
  cut_pieces(pieces, [&](const Pieces::Piece& piece, const auto& add) {
    size_t begin = piece.begin;
    auto before = WordClass::Space;
    for (size_t at = piece.begin; at < piece.end;) {
      const size_t here = at;
      const auto now = word_class(next_character(pieces.text, at));
      if (now == before) continue;
      if (before != WordClass::Space) add(begin, here);
      begin = here;
      before = now;
    }
    if (before != WordClass::Space) add(begin, piece.end);
  });
}

/// Prepends a space to each piece without one, so that the first word is like the others.
void prefix_space(Pieces& pieces) {
  rewrite_pieces(pieces, [&](const Pieces::Piece& piece, bool /*first*/, Rewritten& out) {
    if (!pieces.of(piece).starts_with(' ')) out.put(" ", piece.begin);
    out.keep(piece.begin, piece.end);
  });
}

/// Pre-tokenizer of SentencePiece: spaces become U+2581, one is prepended, and words begin with it.
PreTokenizer metaspace(const JsonField& part) {
  part.expect_keys(
      {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  const std::string replacement = part.text("replacement", "\xE2\x96\x81");
  const bool prefix = part.flag("add_prefix_space", true);
  const std::string scheme = part.text("prepend_scheme", prefix ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    part["prepend_scheme"].refuse("always, first or never");
  }
  if (replacement.empty()) part["replacement"].refuse("one character");
  return [=, splits = part.flag("split", true)](Pieces& pieces) {
    rewrite_pieces(pieces, [&](const Pieces::Piece& piece, bool first, Rewritten& out) {
      const bool prepend = scheme == "always" || (scheme == "first" && first && pieces.at_start);
      const auto text = pieces.of(piece);
      if (prepend && !text.starts_with(' ') && !text.starts_with(replacement)) {
        out.put(replacement, piece.begin);
      }
      for (size_t at = piece.begin; at < piece.end;) {
        const size_t blank = std::min(pieces.text.find(' ', at), piece.end);
        out.keep(at, blank);
        if (blank < piece.end) out.put(replacement, blank);
        at = blank + 1;
      }
    });
    if (!splits) return;
    cut_pieces(pieces, [&](const Pieces::Piece& piece, const auto& add) {
      size_t begin = piece.begin;
      while (begin < piece.end) {
        const size_t next = pieces.text.find(replacement, begin + 1);
        const size_t end = std::min(next, piece.end);
        add(begin, end);
        begin = end;
      }
    });
  };
}

/// Pre-tokenizer that cuts at white space and, for BERT, also before and behind each punctuation
/// mark.
PreTokenizer words(bool cut_punctuation) {
  return [cut_punctuation](Pieces& pieces) {
    const Characters& characters = Characters::get();
    cut_pieces(pieces, [&](const Pieces::Piece& piece, const auto& add) {
      size_t begin = piece.begin;
      for (size_t at = piece.begin; at < piece.end;) {
        const size_t here = at;
        const char32_t c = next_character(pieces.text, at);
        if (characters.is_space(c)) {
          add(begin, here);
          begin = at;
        } else if (cut_punctuation && characters.is_bert_punctuation(c)) {
          add(begin, here);
          add(here, at);
          begin = at;
        }
      }
      add(begin, piece.end);
    });
  };
}

void add_steps(const JsonField& part, PreTokenizers& made) {
  if (part.is_null()) return;
  if (made.byte_level) part.refuse("nothing behind ByteLevel");
  auto& steps = made.steps;
  const std::string type = part.type();
  if (type == "Sequence") {
    part.expect_keys({"type", "pretokenizers"});
    for (const JsonField& element : part["pretokenizers"].elements()) add_steps(element, made);
  } else if (type == "ByteLevel") {
    part.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (part.flag("add_prefix_space", true)) steps.emplace_back(prefix_space);
    if (part.flag("use_regex", true)) steps.push_back(scan(find_scanner(kGpt2Pattern)));
    made.byte_level = true;
  } else if (type == "Split") {
    steps.push_back(cut_by_pattern(part));
  } else if (type == "Metaspace") {
    steps.push_back(metaspace(part));
  } else if (type == "BertPreTokenizer" || type == "WhitespaceSplit") {
    part.expect_keys({"type"});
    steps.push_back(words(type == "BertPreTokenizer"));
  } else if (type == "Whitespace") {
    part.expect_keys({"type"});
    steps.emplace_back(cut_words);
  } else if (type == "Digits") {
    steps.push_back(cut_digits(part));
  } else if (type == "Punctuation") {
    steps.push_back(cut_punctuation(part));
  } else {
    part["type"].refuse(
        "Sequence, ByteLevel, Split, Metaspace, BertPreTokenizer, Whitespace, WhitespaceSplit, "
        "Digits or Punctuation");
  }
}

}  // namespace

PreTokenizer bytes_as_characters() {
  return [](Pieces& pieces) {
    rewrite_pieces(pieces, [&](const Pieces::Piece& piece, bool /*first*/, Rewritten& out) {
      std::string character;
      for (size_t at = piece.begin; at < piece.end; ++at) {
        character.clear();
        append_utf8(character_of_byte(static_cast<unsigned char>(pieces.text[at])), character);
        out.put(character, at);
      }
    });
  };
}

PreTokenizers make_pre_tokenizers(const JsonField& part) {
  PreTokenizers made;
  add_steps(part, made);
  return made;
}

}  // namespace convoy::tokenizers
