#include "convoy/tasks/chat/reading.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::tasks {

void take_corrupt(const std::string& error, const ChatOptions& options, RowCount& corrupt) {
  const auto trouble = sentence_of(error);
  if (!options.skip_corrupt) {
    fail<FileError>("data", "{}; try to mend it, or --skip_corrupt true", trouble);
  }
  corrupt.add(trouble);
}

void take_refused(const std::string& error, const std::string& where, const ChatOptions& options,
                  RowCount& corrupt) {
  const auto trouble = fmt::format("{}: {}", where, sentence_of(error));
  if (!options.skip_corrupt) {
    fail<UsageError>("data", "{}; try to mend it, or --skip_corrupt true", trouble);
  }
  corrupt.add(trouble);
}

std::string told_corrupt(const RowCount& corrupt) {
  if (corrupt.number == 0) return "";
  return fmt::format("; {} left out as corrupt, such as: {}", corrupt.number, corrupt.first);
}

void expect_template(const chat::ChatTemplate* chat, const std::string& where) {
  if (chat != nullptr) return;
  fail<UsageError>("data",
                   "{} holds messages, and the model has no chat template for them; try "
                   "--chat_template FILE, or a model that chats",
                   where);
}

void add_arguments(const chat::OrderedJson& arguments, chat::Dialogue& dialogue) {
  auto merged = arguments;
  for (const auto& [key, value] : dialogue.arguments.items()) merged[key] = value;
  dialogue.arguments = std::move(merged);
}

void note_missing_end(const tokenizers::Tokenizer& tokenizer, const RowCount& texts,
                      std::vector<std::string>& notes) {
  if (texts.number == 0 || tokenizer.special_ids().eos) return;
  notes.push_back(
      fmt::format("warning: the tokenizer names no token that ends texts, so nothing ends the "
                  "answers of rows of texts, such as {}, and the model does not learn to stop; try "
                  "eos_token in its tokenizer_config.json",
                  texts.first));
}

void cut_row(chat::Row& row, int64_t length) {
  const auto kept = std::min(row.ids.size(), static_cast<size_t>(length));
  row.ids.resize(kept);
  row.is_target.resize(kept);
}

}  // namespace convoy::tasks
