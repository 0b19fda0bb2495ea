#include "convoy/tokenizers/decoder.h"

#include <utility>

#include "convoy/base/text.h"
#include "convoy/tokenizers/models/byte_alphabet.h"
#include "convoy/tokenizers/split.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {
namespace {

using Steps = std::vector<Decoder>;
using Tokens = std::vector<std::string>;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

void fuse(Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens.clear();
  tokens.push_back(std::move(all));
}

void decode_byte_level(Tokens& tokens) {
  for (std::string& token : tokens) {
    if (auto bytes = bytes_of(token)) token = std::move(*bytes);
  }
  fuse(tokens);
  std::string text;
  replace_malformed(tokens.front(), text);
  tokens.front() = std::move(text);
}

/// Byte of a token like <0x0A>, or -1.
int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void decode_byte_fallback(Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (is_utf8(bytes)) {
      if (!bytes.empty()) out.push_back(bytes);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) append_utf8(kReplacement, out.emplace_back());
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = byte_of(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(out);
}

/// Removes the spaces that English tokenizers put around punctuation.
void clean_up(std::string& text) {
  static const std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

void add_word_piece(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "prefix", "cleanup"});
  steps.push_back(
      [prefix = part.text("prefix", "##"), cleanup = part.flag("cleanup", true)](Tokens& tokens) {
        for (size_t i = 0; i < tokens.size(); ++i) {
          if (i > 0) {
            if (tokens[i].starts_with(prefix)) {
              tokens[i].erase(0, prefix.size());
            } else {
              tokens[i] = " " + std::move(tokens[i]);
            }
          }
          if (cleanup) clean_up(tokens[i]);
        }
      });
}

void add_metaspace(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "replacement", "add_prefix_space", "prepend_scheme", "split"});
  const bool prefix =
      part.flag("add_prefix_space", true) && part.text("prepend_scheme", "always") != "never";
  steps.push_back([replacement = part.text("replacement", "\xE2\x96\x81"), prefix](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], replacement, i == 0 && prefix ? "" : " ");
    }
  });
}

void add_strip(const JsonField& part, Steps& steps) {
  part.expect_keys({"type", "content", "start", "stop"});
  const auto count = [&](const char* key) {
    return static_cast<size_t>(part[key].number(0, 1 << 30));
  };
  if (part["content"].text().empty()) part["content"].refuse("a character");
  steps.push_back([content = part["content"].text(), start = count("start"),
                   stop = count("stop")](Tokens& tokens) {
    for (std::string& token : tokens) {
      for (size_t i = 0; i < start && token.starts_with(content); ++i) {
        token.erase(0, content.size());
      }
      for (size_t i = 0; i < stop && token.ends_with(content); ++i) {
        token.resize(token.size() - content.size());
      }
    }
  });
}

void add_steps(const JsonField& part, Steps& steps) {
  if (part.is_null()) return;
  const std::string type = part.type();
  if (type == "Sequence") {
    part.expect_keys({"type", "decoders"});
    for (const JsonField& element : part["decoders"].elements()) add_steps(element, steps);
  } else if (type == "ByteLevel") {
    steps.push_back(decode_byte_level);
  } else if (type == "ByteFallback") {
    steps.push_back(decode_byte_fallback);
  } else if (type == "Fuse") {
    steps.push_back(fuse);
  } else if (type == "Replace") {
    part.expect_keys({"type", "pattern", "content"});
    const std::string from = part["pattern"]["String"].text();
    if (from.empty()) part["pattern"].refuse("a text that is not empty");
    steps.push_back([from, to = part["content"].text()](Tokens& tokens) {
      for (std::string& token : tokens) replace_all(token, from, to);
    });
  } else if (type == "WordPiece") {
    add_word_piece(part, steps);
  } else if (type == "Metaspace") {
    add_metaspace(part, steps);
  } else if (type == "Strip") {
    add_strip(part, steps);
  } else {
    part["type"].refuse(
        "Sequence, ByteLevel, ByteFallback, Fuse, Replace, WordPiece, Metaspace or Strip");
  }
}

}  // namespace

Steps make_decoders(const JsonField& part) {
  Steps steps;
  add_steps(part, steps);
  return steps;
}

}  // namespace convoy::tokenizers
