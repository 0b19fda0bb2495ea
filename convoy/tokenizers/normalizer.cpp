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

/// Characters that BERT puts spaces around.
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
  steps.push_back([=](std::string_view text, std::string& out) {
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
  });
}

void add_replace(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "pattern", "content"});
  steps.push_back([pattern = Pattern(part["pattern"]), content = part["content"].text()](
                      std::string_view text, std::string& out) {
    size_t done = 0;
    Regex::Match match;
    for (size_t from = 0; from <= text.size() && pattern.search(text, from, match);) {
      out += text.substr(done, match.begin - done);
      out += content;
      done = match.end;
      from = match.end;
      if (match.begin == match.end) {
        if (from == text.size()) break;
        next_character(text, from);
      }
    }
    out += text.substr(done);
  });
}

void add_strip(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "strip_left", "strip_right"});
  steps.push_back([left = part.flag("strip_left", true), right = part.flag("strip_right", true)](
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
  });
}

/// SentencePiece's map, as `tokenizers` apply it: to what a reader sees as one character, if that
/// is short, and only its shortest beginning counts; else to each part of it.
void add_chars_map(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "precompiled_charsmap"});
  constexpr size_t kShort = 6;  // bytes
  auto bytes = part["precompiled_charsmap"].base64();
  if (!CharsMap::is_sound(bytes)) {
    fail<FileError>("text", "{}.precompiled_charsmap is damaged", part.where());
  }
  steps.push_back([map = CharsMap(std::move(bytes))](std::string_view text, std::string& out) {
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
  });
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
    steps.push_back([form = form->second](std::string_view text, std::string& out) {
      append_normalized(text, form, out);
    });
  } else if (type == "Sequence") {
    part.expect_keys({"type", "normalizers"});
    for (const JsonField& element : part["normalizers"].elements()) add_steps(element, steps);
  } else if (type == "Lowercase") {
    part.expect_keys({"type"});
    steps.push_back(lower);
  } else if (type == "StripAccents") {
    part.expect_keys({"type"});
    steps.push_back([](std::string_view text, std::string& out) {
      for_characters(text, out, [](char32_t c, std::string& to) {
        if (!Characters::get().is_mark(c)) append_utf8(c, to);
      });
    });
  } else if (type == "Prepend") {
    part.expect_keys({"type", "prepend"});
    steps.push_back([prefix = part["prepend"].text()](std::string_view text, std::string& out) {
      if (!text.empty()) out += prefix;
      out += text;
    });
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
    step(&step == &steps.front() ? text : std::string_view(before), buffer);
    if (buffer.size() > limit) {
      fail<UsageError>("text", "the normalizer makes {} bytes of {}; expected at most {}",
                       buffer.size(), text.size(), limit);
    }
  }
  return steps.empty() ? text : std::string_view(buffer);
}

}  // namespace convoy::tokenizers
