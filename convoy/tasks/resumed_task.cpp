#include "convoy/tasks/resumed_task.h"

#include <map>
#include <string>

#include "convoy/base/error.h"
#include "convoy/checkpoint/adapter_config.h"
#include "convoy/checkpoint/folder.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

std::vector<fs::path> folders_to_resume(const fs::path& source, const fs::path& output) {
  if (source.empty() || source == "false" || source == "False") return {};
  std::error_code error;
  if (fs::is_directory(source, error)) {
    const auto place = fs::canonical(source);  // not behind a slash, nor beside a link
    return {place.parent_path(), place};
  }
  if (output.empty() || !checkpoint::latest_checkpoint(output)) return {};
  return {output};
}

void check_resumed_task(const OptionTable& table) {
  constexpr const char* kTask = "model.task";
  const auto plain = [&](const char* key) {
    const auto* option = table.find(key);
    return option == nullptr ? std::string() : option->plain();
  };
  const fs::path output = plain("output.dir");
  auto folders = folders_to_resume(plain("train.resume_from_checkpoint"), output);
  if (folders.empty()) return;
  auto place = folders.back();
  if (place == output) {
    const auto latest = checkpoint::latest_checkpoint(output);
    if (!latest) return;
    place = *latest;
  }
  std::error_code error;
  if (!fs::is_regular_file(place / "run.toml", error)) return;
  const auto values = toml_values(place / "run.toml");
  const auto found = values.find(kTask);
  if (found == values.end() || found->second == plain(kTask)) return;
  fail<UsageError>("tasks",
                   "{} is of a run with task = {}, and this one has task = {}: a run goes on with "
                   "its own; try --task {}, or --{} {} without --resume_from_checkpoint, which "
                   "begins with its weights",
                   place.string(), found->second, plain(kTask), found->second,
                   checkpoint::is_adapter(place) ? "adapter_name_or_path" : "model_name_or_path",
                   place.string());
}

}  // namespace convoy::tasks
