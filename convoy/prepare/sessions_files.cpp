#include "convoy/prepare/sessions_files.h"
#include "convoy/prepare/seen.h"

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/formats/schema.h"
#include "convoy/prepare/events.h"
#include "convoy/prepare/item_features.h"
#include "convoy/prepare/scales.h"

namespace convoy::prepare {

namespace {

/// Names of train.parquet and valid.parquet of windows.
std::vector<std::string> files_of_windows(const std::filesystem::path& folder) {
  std::vector<std::string> found;
  if (!exists(folder / "schema.json")) return found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    int64_t window = 0;
    if (!parse_number(name, window) || window < 1 || window_folder(window) != name) continue;
    for (const char* file : {"train.parquet", "valid.parquet"}) {
      if (exists(entry.path() / file)) found.push_back(name + "/" + file);
    }
  }
  return found;
}

}  // namespace

void check_place(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    fail<UsageError>("prepare",
                     "{} is a folder, where a file is to be written; try another "
                     "--output",
                     file.string());
  }
  const auto folder = file.parent_path();
  if (!std::filesystem::exists(folder / "trainer_state.json", error)) return;
  fail<UsageError>("prepare",
                   "{} is the folder of a run, which reads its own {}; try another --output",
                   folder.string(), file.filename().string());
}

std::vector<std::string> earlier_files(const std::filesystem::path& folder) {
  const std::vector<std::string> written{"id", "raw_id", "count"};  // as write_items
  auto found = files_of_windows(folder);
  for (const char* file : {kScalesFile, kItemFeaturesFile, kItemFeaturesInfo}) {
    found.emplace_back(file);
  }
  auto look_for = [&](const std::string& file) {
    const auto path = folder / file;
    if (exists(path) && list_columns(path, {}) == written) found.push_back(file);
  };
  if (!exists(folder / "schema.json")) return found;
  try {
    for (const formats::Feature& feature : formats::Schema::load(folder / "schema.json").features) {
      if (!feature.int_domain || feature.has_tag("item_id")) continue;
      const std::string& name = feature.int_domain->name;
      const bool ours = name.find('/') == std::string::npos &&
                        (feature.name == name || feature.name == name + "-list");
      if (ours && feature.has_tag("categorical")) look_for(name + ".parquet");
    }
    look_for(kUsersFile);
  } catch (const FileError&) {  // nothing of ours
  }
  return found;
}

std::string window_folder(int64_t window) {
  return fmt::format("{:04}", window);
}

}  // namespace convoy::prepare
