#include "convoy/chat/row.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::chat {

namespace {

using tokenizers::TokenSpan;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == text.npos;
}

/// Marks the tokens that overlap a part of the text, both in order. Returns those of each part.
std::vector<std::pair<size_t, size_t>> mark(const std::vector<TokenSpan>& spans,
                                            const std::vector<jinja::ByteRange>& parts,
                                            std::vector<bool>& marks) {
  std::vector<std::pair<size_t, size_t>> out;
  marks.assign(spans.size(), false);
  size_t token = 0;
  for (const auto& part : parts) {
    while (token < spans.size() && spans[token].end <= part.begin) ++token;
    const size_t first = token;
    for (size_t i = token; i < spans.size() && spans[i].begin < part.end; ++i) {
      marks[i] = true;
      token = i;
    }
    if (first < spans.size() && marks[first]) out.emplace_back(first, token + 1);
  }
  return out;
}

}  // namespace

int64_t Row::num_targets() const {
  return std::count(is_target.begin(), is_target.end(), true);
}

Row row_of(const tokenizers::Tokenizer& tokenizer, const Rendered& rendered) {
  Row row;
  std::vector<TokenSpan> spans;
  tokenizer.encode_with_spans(rendered.text, row.ids, spans);
  for (const auto& [begin, end] : mark(spans, rendered.answers, row.is_target)) {
    if (rendered.found == Found::kByTags) continue;  // who tags says how far
    const std::string_view text = rendered.text;
    size_t last = end;
    while (last > begin && is_blank(text.substr(spans[last - 1].begin,
                                                spans[last - 1].end - spans[last - 1].begin))) {
      --last;
    }
    if (last == begin || !tokenizer.is_special(row.ids[last - 1])) continue;
    std::fill(row.is_target.begin() + static_cast<std::ptrdiff_t>(last),
              row.is_target.begin() + static_cast<std::ptrdiff_t>(end), false);
  }
  return row;
}

Row row_of_text(const tokenizers::Tokenizer& tokenizer, const Conversation& conversation) {
  Row row;
  std::vector<int32_t> frame;
  tokenizer.encode("", frame);
  const auto& special = tokenizer.special_ids();
  if (special.bos && !frame.empty() && frame.front() == *special.bos) row.ids = {*special.bos};
  const size_t before = row.ids.size();
  std::vector<TokenSpan> spans;
  const auto text = conversation.prompt + conversation.completion;
  tokenizer.encode_with_spans(text, row.ids, spans);
  row.is_target.assign(before, false);
  for (const auto& span : spans) row.is_target.push_back(span.end > conversation.prompt.size());
  if (special.eos && (row.ids.empty() || row.ids.back() != *special.eos)) {
    row.ids.push_back(*special.eos);
    row.is_target.push_back(true);
  }
  return row;
}

std::string shown(const tokenizers::Tokenizer& tokenizer, const Row& row) {
  constexpr size_t kMost = 160;  // bytes of a stretch
  const auto in_a_line = [](std::string_view text) {
    std::vector<std::string> lines;
    for (const auto& line : split(text, '\n')) lines.push_back(printable(line));
    return join(lines, "\\n");
  };
  const auto shortened = [&](const std::string& text) {
    if (text.size() <= kMost) return in_a_line(text);
    size_t head = kMost / 2, tail = text.size() - kMost / 2;
    const auto is_inside = [&](size_t at) { return (text[at] & 0xC0) == 0x80; };  // of a character
    while (is_inside(head)) --head;
    while (tail < text.size() && is_inside(tail)) ++tail;
    return in_a_line(text.substr(0, head)) + " ... " + in_a_line(text.substr(tail));
  };
  std::string out;
  for (size_t begin = 0; begin < row.ids.size();) {
    size_t end = begin;
    while (end < row.ids.size() && row.is_target[end] == row.is_target[begin]) ++end;
    const std::span<const int32_t> ids(row.ids.data() + begin, end - begin);
    const auto text = shortened(tokenizer.decode(ids, /*skip_special_tokens=*/false));
    out += row.is_target[begin] ? "[[" + text + "]]" : text;
    begin = end;
  }
  return out;
}

}  // namespace convoy::chat
