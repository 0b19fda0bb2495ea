#include "convoy/tasks/session/histories.h"

#include "convoy/base/error.h"
#include "convoy/base/options.h"
#include "convoy/prepare/seen.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/same_ids.h"
#include "convoy/tasks/session/session_arguments.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

/// Options that say where the run in `folder` has its data.
DataArguments data_of(const fs::path& folder) {
  DataArguments out;
  const auto file = kept_file(folder, "run.toml");
  if (file.empty()) return out;
  const auto values = toml_values(file);
  for (const auto& [key, value] : {std::pair{"data.path", &out.path},
                                   {"data.train", &out.train},
                                   {"data.schema", &out.schema}}) {
    if (const auto found = values.find(key); found != values.end()) *value = found->second;
  }
  return out;
}

}  // namespace

fs::path beside_data_of(const fs::path& folder, const std::string& name) {
  const auto data = data_of(folder);
  return data.schema_file().empty() ? fs::path() : fs::path(data.beside_schema(name));
}

Histories::Histories(const fs::path& folder, const models::SessionConfig& config,
                     const fs::path& data) {
  const BesideData find =
      data.empty()
          ? BesideData([&](const std::string& name) { return beside_data_of(folder, name); })
          : beside(data);
  const auto lists = find(prepare::kSeenFile), names = find(prepare::kUsersFile);
  if (lists.empty() || names.empty()) {
    const auto place = data_of(folder);
    const auto where = !data.empty()        ? data.string()
                       : place.path.empty() ? place.train
                                            : place.path;
    fail<FileError>("predict",
                    "there is no {} beside {}, where histories of users are looked for; try --data "
                    "FOLDER that convoy data sessions wrote, or \"items\" without \"user\"",
                    lists.empty() ? prepare::kSeenFile : prepare::kUsersFile,
                    where.empty() ? "the data of " + folder.string() : where);
  }
  check_same_ids(folder, config, find);
  lists_ = prepare::SeenLists(lists);
  const auto users = prepare::ItemNames::load(names);
  for (int64_t id = 1; id <= users.size(); ++id) users_.emplace(users.raw_id(id), lists_.of(id));
  items_file_ = find("items.parquet");
}

const std::span<const int32_t>* Histories::of(const std::string& user) const {
  const auto found = users_.find(user);
  return found == users_.end() ? nullptr : &found->second;
}

std::string Histories::raw_id(int64_t id) const {
  std::call_once(read_items_, [this] {
    if (!items_file_.empty()) items_ = prepare::ItemNames::load(items_file_);
  });
  return items_.raw_id(id);
}

}  // namespace convoy::tasks
