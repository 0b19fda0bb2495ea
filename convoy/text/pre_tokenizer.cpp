#include "convoy/text/pre_tokenizer.h"

#include "convoy/text/scanner.h"
#include "convoy/text/split.h"
#include "convoy/text/unicode.h"

namespace convoy::text {
namespace {

/// Replaces every piece by what `cut(piece, add)` makes of it.
template <class Cut>
void cut_pieces(Pieces& pieces, const Cut& cut) {
  pieces.spare.clear();
  const auto add = [&](size_t begin, size_t end) {
    if (begin < end) pieces.spare.push_back({begin, end});
  };
  for (const Pieces::Piece& piece : pieces.pieces) cut(piece, add);
  pieces.pieces.swap(pieces.spare);
}

/// Rewrites every piece: `rewrite(piece, is_first, out)` appends what it becomes.
template <class Rewrite>
void rewrite_pieces(Pieces& pieces, const Rewrite& rewrite) {
  std::string text;
  bool first = true;
  for (Pieces::Piece& piece : pieces.pieces) {
    const size_t begin = text.size();
    rewrite(pieces.of(piece), first, text);
    piece = {begin, text.size()};
    first = false;
  }
  pieces.own = std::move(text);
  pieces.text = pieces.own;
}

class ScannerStep : public PreTokenizer {
 public:
  explicit ScannerStep(Scanner scanner) : scanner_(scanner) {}

  void apply(Pieces& pieces) const override {
    cut_pieces(pieces, [&](const Pieces::Piece& piece, const auto& add) {
      const std::string_view text = pieces.of(piece);
      for (size_t at = 0; at < text.size();) {
        const size_t end = scanner_(text, at);
        add(piece.begin + at, piece.begin + end);
        at = end;
      }
    });
  }

 private:
  Scanner scanner_;
};

class SplitStep : public PreTokenizer {
 public:
  explicit SplitStep(const Part& part) : split_(part) {}

  void apply(Pieces& pieces) const override {
    cut_pieces(pieces, [&](const Pieces::Piece& piece, const auto& add) {
      for (const auto& cut : split_.cut(pieces.of(piece))) {
        add(piece.begin + cut.begin, piece.begin + cut.end);
      }
    });
  }

 private:
  Split split_;
};

/// A space before each piece that has none: the first word like the others.
class PrefixSpaceStep : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    rewrite_pieces(pieces, [](std::string_view piece, bool /*first*/, std::string& out) {
      if (!piece.starts_with(' ')) out += ' ';
      out += piece;
    });
  }
};

/// SentencePiece's way: spaces become U+2581, one comes in front, words begin with it.
class MetaspaceStep : public PreTokenizer {
 public:
  explicit MetaspaceStep(const Part& part) {
    part.expect_keys(
        {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    replacement_ = part.text("replacement", "\xE2\x96\x81");
    const bool prefix = part.flag("add_prefix_space", true);
    scheme_ = part.text("prepend_scheme", prefix ? "always" : "never");
    if (scheme_ != "always" && scheme_ != "first" && scheme_ != "never") {
      part["prepend_scheme"].refuse("always, first or never");
    }
    if (replacement_.empty()) part["replacement"].refuse("one character");
    split_ = part.flag("split", true);
  }

  void apply(Pieces& pieces) const override {
    rewrite_pieces(pieces, [&](std::string_view piece, bool first, std::string& out) {
      const bool prepend = scheme_ == "always" || (scheme_ == "first" && first && pieces.at_start);
      if (prepend && !piece.starts_with(' ') && !piece.starts_with(replacement_)) {
        out += replacement_;
      }
      for (const char c : piece) {
        if (c == ' ') {
          out += replacement_;
        } else {
          out += c;
        }
      }
    });
    if (!split_) return;
    cut_pieces(pieces, [&](const Pieces::Piece& piece, const auto& add) {
      size_t begin = piece.begin;
      while (begin < piece.end) {
        const size_t next = pieces.text.find(replacement_, begin + 1);
        const size_t end = std::min(next, piece.end);
        add(begin, end);
        begin = end;
      }
    });
  }

 private:
  std::string replacement_;
  std::string scheme_;
  bool split_ = true;
};

/// Words between white space; of BERT also every punctuation mark for itself.
class WordsStep : public PreTokenizer {
 public:
  explicit WordsStep(bool cut_punctuation) : cut_punctuation_(cut_punctuation) {}

  void apply(Pieces& pieces) const override {
    const Characters& characters = Characters::get();
    cut_pieces(pieces, [&](const Pieces::Piece& piece, const auto& add) {
      size_t begin = piece.begin;
      for (size_t at = piece.begin; at < piece.end;) {
        const size_t here = at;
        const char32_t c = next_character(pieces.text, at);
        if (characters.is_space(c)) {
          add(begin, here);
          begin = at;
        } else if (cut_punctuation_ && characters.is_bert_punctuation(c)) {
          add(begin, here);
          add(here, at);
          begin = at;
        }
      }
      add(begin, piece.end);
    });
  }

 private:
  bool cut_punctuation_;
};

void add_steps(const Part& part, PreTokenizers& made) {
  if (part.is_null()) return;
  if (made.byte_level) part.refuse("nothing behind ByteLevel");
  const auto add = [&](std::unique_ptr<PreTokenizer> step) {
    made.steps.push_back(std::move(step));
  };
  const std::string type = part.type();
  if (type == "Sequence") {
    part.expect_keys({"type", "pretokenizers"});
    for (const Part& element : part["pretokenizers"].elements()) add_steps(element, made);
  } else if (type == "ByteLevel") {
    part.expect_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (part.flag("add_prefix_space", true)) add(std::make_unique<PrefixSpaceStep>());
    if (part.flag("use_regex", true)) {
      add(std::make_unique<ScannerStep>(find_scanner(kGpt2Pattern)));
    }
    made.byte_level = true;
  } else if (type == "Split") {
    const Scanner scanner = Split::scanner_for(part);
    if (scanner != nullptr) {
      add(std::make_unique<ScannerStep>(scanner));
    } else {
      add(std::make_unique<SplitStep>(part));
    }
  } else if (type == "Metaspace") {
    add(std::make_unique<MetaspaceStep>(part));
  } else if (type == "BertPreTokenizer" || type == "WhitespaceSplit") {
    part.expect_keys({"type"});
    add(std::make_unique<WordsStep>(type == "BertPreTokenizer"));
  } else {
    part["type"].refuse(
        "Sequence, ByteLevel, Split, Metaspace, BertPreTokenizer or WhitespaceSplit");
  }
}

}  // namespace

PreTokenizers make_pre_tokenizers(const Part& part) {
  PreTokenizers made;
  add_steps(part, made);
  return made;
}

}  // namespace convoy::text
