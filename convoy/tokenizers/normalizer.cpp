#include "convoy/tokenizers/normalizer.h"

#include <map>

#include "convoy/tokenizers/split.h"
#include "convoy/tokenizers/unicode/chars_map.h"
#include "convoy/tokenizers/unicode/normal_form.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {
namespace {

using Steps = std::vector<Normalizer>;

/// Calls `each(c, out)` for every character.
template <class Each>
void for_characters(std::string_view text, std::string& out, const Each& each) {
  for (size_t at = 0; at < text.size();) each(next_character(text, at), out);
}

/// Whether BERT puts spaces around a character.
bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

void clean(char32_t c, std::string& out) {
  const Characters& characters = Characters::get();
  if (characters.is_bert_control(c)) return;
  append_utf8(characters.is_space(c) ? U' ' : c, out);
}

void space_chinese(char32_t c, std::string& out) {
  if (is_chinese(c)) out += ' ';
  append_utf8(c, out);
  if (is_chinese(c)) out += ' ';
}

void lower(std::string_view text, std::string& out) {
  for_characters(text, out, append_lower);
}

void add_bert(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lowercase = part.flag("lowercase", true);
  const bool clean_text = part.flag("clean_text", true);
  const bool chinese = part.flag("handle_chinese_chars", true);
  const bool strip = part.flag("strip_accents", lowercase);
  steps.push_back({[=](std::string_view text, std::string& out) {
    std::string before(text);
    std::string after;
    const auto pass = [&](const auto& each) {
      after.clear();
      for_characters(before, after, each);
      before.swap(after);
    };
    if (clean_text) pass(clean);
    if (chinese) pass(space_chinese);
    if (strip) {
      after.clear();
      append_normalized(before, NormalForm::D, after);
      before.swap(after);
      pass([](char32_t c, std::string& to) {
        if (!Characters::get().is_bert_accent(c)) append_utf8(c, to);
      });
    }
    if (lowercase) {
      lower(before, out);
    } else {
      out += before;
    }
  }});
}

/// Rewrites the matches of a pattern. Calls `stretch(begin, end)` for text that stays, and
/// `match(begin, end)` for text that `content` replaces.
template <class Stretch, class Found>
void for_matches(const Pattern& pattern, std::string_view text, const Stretch& stretch,
                 const Found& found) {
  size_t done = 0;
  Regex::Match match;
  for (size_t from = 0; from <= text.size() && pattern.search(text, from, match);) {
    stretch(done, match.begin);
    found(match.begin, match.end);
    done = match.end;
    from = match.end;
    if (match.begin == match.end) {
      if (from == text.size()) break;
      next_character(text, from);
    }
  }
  stretch(done, text.size());
}

/// Appends `text` unchanged, and the offsets of its characters from `begin` on.
void keep(std::string_view text, size_t begin, std::string& out, std::vector<size_t>& from) {
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    next_character(text, at);
    from.insert(from.end(), at - here, begin + here);
  }
  out += text;
}

void add_replace(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "pattern", "content"});
  const Pattern pattern(part["pattern"]);
  const std::string content = part["content"].text();
  const auto apply = [=](std::string_view text, std::string& out) {
    for_matches(
        pattern, text, [&](size_t begin, size_t end) { out += text.substr(begin, end - begin); },
        [&](size_t /*begin*/, size_t /*end*/) { out += content; });
  };
  const auto follow = [=](std::string_view text, std::string& out, std::vector<size_t>& from) {
    for_matches(
        pattern, text,
        [&](size_t begin, size_t end) { keep(text.substr(begin, end - begin), begin, out, from); },
        [&](size_t begin, size_t end) {
          // The last character that matched, or the one in front.
          const size_t last = end > 0 ? previous_character(text, end) : begin;
          out += content;
          from.resize(out.size(), last);
        });
  };
  steps.push_back({apply, follow});
}

void add_strip(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "strip_left", "strip_right"});
  steps.push_back({[left = part.flag("strip_left", true), right = part.flag("strip_right", true)](
                       std::string_view text, std::string& out) {
    const Characters& characters = Characters::get();
    const auto space_at = [&](size_t at) { return characters.is_space(next_character(text, at)); };
    while (left && !text.empty() && space_at(0)) {
      size_t at = 0;
      next_character(text, at);
      text.remove_prefix(at);
    }
    while (right && !text.empty() && space_at(previous_character(text, text.size()))) {
      text = text.substr(0, previous_character(text, text.size()));
    }
    out += text;
  }});
}

/// Adds SentencePiece's character map as `tokenizers` apply it: to a whole grapheme, if it is
/// short, where only its shortest matching prefix counts; else to each character of it.
void add_chars_map(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "precompiled_charsmap"});
  constexpr size_t kShort = 6;  // bytes
  auto bytes = part["precompiled_charsmap"].base64();
  if (!CharsMap::is_sound(bytes)) {
    fail<FileError>("tokenizer", "{}.precompiled_charsmap is damaged", part.where());
  }
  steps.push_back({[map = CharsMap(std::move(bytes))](std::string_view text, std::string& out) {
    const auto replaced = [&](std::string_view some) {
      const auto rule = map.shortest(some.substr(0, some.find('\0')));
      out += rule.to;
      return rule.length > 0;
    };
    for (size_t at = 0; at < text.size();) {
      const size_t end = grapheme_end(text, at);
      if (end - at >= kShort || !replaced(text.substr(at, end - at))) {
        for (size_t next = at; next < end;) {
          const size_t begin = next;
          next_character(text, next);
          const auto character = text.substr(begin, next - begin);
          if (!replaced(character)) out += character;
        }
      }
      at = end;
    }
  }});
}

void add_steps(const JsonField& part, Steps& steps) {
  static const std::map<std::string, NormalForm> kForms{{"NFC", NormalForm::C},
                                                        {"NFD", NormalForm::D},
                                                        {"NFKC", NormalForm::KC},
                                                        {"NFKD", NormalForm::KD}};
  if (part.is_null()) return;
  const std::string type = part.type();
  if (const auto form = kForms.find(type); form != kForms.end()) {
    part.expect_keys({"type"});
    Normalizer step{[form = form->second](std::string_view text, std::string& out) {
      append_normalized(text, form, out);
    }};
    if (form->second == NormalForm::C) step.follow = append_composed;
    steps.push_back(std::move(step));
  } else if (type == "Sequence") {
    part.expect_keys({"type", "normalizers"});
    for (const JsonField& element : part["normalizers"].elements()) add_steps(element, steps);
  } else if (type == "Lowercase") {
    part.expect_keys({"type"});
    steps.push_back({lower});
  } else if (type == "StripAccents") {
    part.expect_keys({"type"});
    steps.push_back({[](std::string_view text, std::string& out) {
      for_characters(text, out, [](char32_t c, std::string& to) {
        if (!Characters::get().is_mark(c)) append_utf8(c, to);
      });
    }});
  } else if (type == "Prepend") {
    part.expect_keys({"type", "prepend"});
    const std::string prefix = part["prepend"].text();
    const auto apply = [prefix](std::string_view text, std::string& out) {
      if (!text.empty()) out += prefix;
      out += text;
    };
    const auto follow = [prefix](std::string_view text, std::string& out,
                                 std::vector<size_t>& from) {
      if (text.empty()) return;
      out += prefix;
      from.resize(prefix.size(), 0);
      keep(text, 0, out, from);
    };
    steps.push_back({apply, follow});
  } else if (type == "Replace") {
    add_replace(part, steps);
  } else if (type == "Strip") {
    add_strip(part, steps);
  } else if (type == "BertNormalizer") {
    add_bert(part, steps);
  } else if (type == "Precompiled") {
    add_chars_map(part, steps);
  } else {
    part["type"].refuse(
        "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Prepend, Replace, Strip, "
        "BertNormalizer or Precompiled");
  }
}

}  // namespace

Steps make_normalizers(const JsonField& part) {
  Steps steps;
  add_steps(part, steps);
  return steps;
}

std::string_view normalize(const Steps& steps, std::string_view text, std::string& buffer) {
  std::string before;
  const size_t limit = 64 * text.size() + (1 << 16);  // no real normalizer comes near
  for (const auto& step : steps) {
    buffer.swap(before);
    buffer.clear();
    step.apply(&step == &steps.front() ? text : std::string_view(before), buffer);
    if (buffer.size() > limit) {
      fail<UsageError>("tokenizer", "the normalizer makes {} bytes of {}; expected at most {}",
                       buffer.size(), text.size(), limit);
    }
  }
  return steps.empty() ? text : std::string_view(buffer);
}

}  // namespace convoy::tokenizers
