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

void add_arguments(const chat::OrderedJson& arguments, chat::Dialogue& dialogue) {
  auto merged = arguments;
  for (const auto& [key, value] : dialogue.arguments.items()) merged[key] = value;
  dialogue.arguments = std::move(merged);
}

void cut_row(chat::Row& row, int64_t length) {
  const auto kept = std::min(row.ids.size(), static_cast<size_t>(length));
  row.ids.resize(kept);
  row.is_target.resize(kept);
}

}  // namespace convoy::tasks
