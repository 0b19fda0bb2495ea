#include <ctime>

#include "convoy/base/error.h"
#include "convoy/tasks/language/task.h"

// Search for the chat template of a language model.
namespace convoy::tasks {
namespace fs = std::filesystem;

std::optional<chat::ChatTemplate> LanguageTask::find_template(const std::string& file) const {
  const fs::path base = lora_ ? lora_.base() : "";
  const fs::path named = data_.tokenizer;
  std::error_code error;
  const auto folder_of = [&](const fs::path& place) {
    return place.empty() || fs::is_directory(place, error) ? place : place.parent_path();
  };
  // A file's special tokens are those of the tokenizer.
  for (const auto& place :
       {opened_, opened_.empty() ? opened_ : opened_ / "..", named, fs::path(start_), base}) {
    if (place.empty() ||
        (!file.empty() && !fs::exists(folder_of(place) / "tokenizer_config.json"))) {
      continue;
    }
    if (auto found = chat::ChatTemplate::find(folder_of(place), file)) return found;
  }
  return file.empty() ? std::nullopt : chat::ChatTemplate::find({}, file);
}

chat::ChatTemplate LanguageTask::chat_template() const {
  auto found = find_template("");
  if (!found) {
    fail<UsageError>("tasks",
                     "{} has no chat template; expected chat_template.jinja, or chat_template in "
                     "tokenizer_config.json; try a model that was trained on conversations",
                     opened_.string());
  }
  if (found->asks_for_date()) found->set_date(today());
  return std::move(*found);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  ::localtime_r(&now, &day);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

}  // namespace convoy::tasks
