#include "convoy/chat/answers.h"

#include <algorithm>
#include <optional>

#include "convoy/base/error.h"

namespace convoy::chat {

namespace {

using jinja::ByteRange;

size_t common_prefix(std::string_view a, std::string_view b) {
  const auto shorter = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(shorter), b.begin()).first -
      a.begin());
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Finds the answers of one conversation.
class Finder {
 public:
  Finder(const ChatTemplate& chat, const Conversation& conversation)
      : chat_(chat),
        conversation_(conversation),
        dialogue_(conversation.dialogue),
        size_(conversation.dialogue.messages.size()) {}

  Rendered run() {
    auto whole = chat_.render(dialogue_, size_, /*add_generation_prompt=*/false);
    out_.text = std::move(whole.text);
    if (chat_.marks_answers(!dialogue_.tools.is_null())) {
      take_tagged(whole.answers);
      return std::move(out_);
    }
    for (size_t turn = conversation_.num_prompt; turn < size_; ++turn) {
      if (is_answer(turn)) turns_.push_back(turn);
    }
    if (turns_.empty()) return std::move(out_);
    out_.found = Found::kByPrefix;
    std::optional<ByteRange> last;
    for (const size_t turn : turns_) {
      last = by_prefix(turn);
      if (!last) {
        last = by_placeholder(turn);
        if (out_.found == Found::kByPrefix) out_.found = Found::kByPlaceholder;
      }
      if (!last) out_.found = Found::kLastOnly;
      if (last && out_.found != Found::kLastOnly) out_.answers.push_back(*last);
    }
    if (out_.found == Found::kLastOnly) {
      out_.answers.clear();
      if (!last) last = last_by_likeness();
      if (last) out_.answers.push_back(*last);
    }
    std::erase_if(out_.answers, [](const ByteRange& span) { return span.begin >= span.end; });
    if (out_.answers.empty()) out_.found = Found::kNowhere;
    return std::move(out_);
  }

 private:
  bool is_answer(size_t turn) const { return dialogue_.messages[turn]["role"] == "assistant"; }

  /// Text of the first messages; nothing where the template refuses them without the others.
  std::optional<std::string> text_up_to(size_t count, bool prompts) const {
    try {
      return chat_.render(dialogue_, count, prompts).text;
    } catch (const UsageError&) {
      return std::nullopt;
    }
  }

  void take_tagged(std::vector<ByteRange> answers) {
    size_t learnt = 0;
    if (conversation_.num_prompt > 0) {
      const auto before = text_up_to(conversation_.num_prompt, /*prompts=*/false);
      if (before) learnt = common_prefix(*before, out_.text);
    }
    std::erase_if(answers, [&](const ByteRange& span) { return span.begin < learnt; });
    out_.found = answers.empty() ? Found::kNowhere : Found::kByTags;
    out_.answers = std::move(answers);
  }

  std::optional<ByteRange> by_prefix(size_t turn) const {
    const auto through = turn + 1 == size_ ? out_.text : text_up_to(turn + 1, /*prompts=*/false);
    if (!through || !out_.text.starts_with(*through)) return std::nullopt;
    const auto before = text_up_to(turn, /*prompts=*/true);
    if (!before || !through->starts_with(*before)) return std::nullopt;
    return ByteRange{before->size(), through->size()};
  }

  std::optional<ByteRange> by_placeholder(size_t turn) const {
    const auto content = dialogue_.messages[turn].value("content", OrderedJson());
    if (!content.is_string()) return std::nullopt;
    const auto said = content.get<std::string>();
    std::string mark = "PLACEHOLDER";
    while (out_.text.find(mark) != std::string::npos) mark += "0";
    Dialogue marked = dialogue_;
    marked.messages[turn]["content"] = mark;
    const auto parts = [&](size_t count) -> std::optional<std::pair<std::string, std::string>> {
      try {
        const auto text = chat_.render(marked, count, /*add_generation_prompt=*/false).text;
        const size_t at = text.find(mark);
        if (at == text.npos || text.find(mark, at + 1) != text.npos) return std::nullopt;
        return std::pair(text.substr(0, at), text.substr(at + mark.size()));
      } catch (const UsageError&) {
        return std::nullopt;
      }
    };
    const auto around = parts(size_);
    if (!around) return std::nullopt;
    const auto& [before, behind] = *around;
    const std::string_view text = out_.text;
    if (text.size() < before.size() + behind.size() || !text.starts_with(before) ||
        !text.ends_with(behind)) {
      return std::nullopt;
    }
    ByteRange span{before.size(), text.size() - behind.size()};
    const auto shown = text.substr(span.begin, span.end - span.begin);
    if (said.find(trimmed(shown)) == std::string::npos) return std::nullopt;
    // Text that the template puts behind a last answer belongs to this answer, too.
    if (const auto alone = parts(turn + 1)) span.end += common_prefix(alone->second, behind);
    return span;
  }

  /// Span of the last answer: from the first byte that differs from the prompt that asks for it.
  std::optional<ByteRange> last_by_likeness() const {
    const size_t turn = turns_.back();
    if (turn + 1 != size_) return std::nullopt;
    const auto before = text_up_to(turn, /*prompts=*/true);
    if (!before) return std::nullopt;
    return ByteRange{common_prefix(*before, out_.text), out_.text.size()};
  }

  const ChatTemplate& chat_;
  const Conversation& conversation_;
  const Dialogue& dialogue_;
  const size_t size_;
  std::vector<size_t> turns_;  // of the assistant
  Rendered out_;
};

}  // namespace

Rendered render_answers(const ChatTemplate& chat, const Conversation& conversation) {
  return Finder(chat, conversation).run();
}

}  // namespace convoy::chat
