#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/tasks/session/item_tower.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

std::string SessionTask::split_of(const std::string& where, const std::string& split) {
  if (split == "valid") return where;
  const auto& data = arguments_.data;
  fs::path folder = where;
  std::error_code ignored;
  if (where.empty()) {
    const fs::path near = !data.valid.empty() ? data.valid
                          : data.path.empty() ? data.train
                                              : data.path;
    folder = fs::is_directory(near, ignored) ? near : near.parent_path();
    if (near.empty()) {
      fail<UsageError>("data", "--split {} needs a folder of sessions; got none; try --data FOLDER",
                       split);
    }
  }
  if (fs::is_regular_file(folder, ignored)) {
    fail<UsageError>("data",
                     "--split {} chooses a file of a folder, and {} is a file; try --data FOLDER, "
                     "or --data without --split",
                     split, folder.string());
  }
  const auto file = folder / (split + ".parquet");
  if (fs::exists(file, ignored)) return file.string();
  fail<FileError>("data",
                  "there is no {}; convoy data sessions --validation leave-last-two makes one, and "
                  "training rows without its targets",
                  file.string());
}

void SessionTask::take_newer_items(const std::string& where) {
  const auto file = where.empty() ? arguments_.data.valid_file() : rows_in(where);
  if (folder_.empty() || arguments_.model.item_tower.empty() || file.empty()) return;
  auto known = KnownIdsOfModel::of_run(folder_, arguments_.model);
  open_item_tower(folder_, beside(file), arguments_.model, known);
  const auto num_ids = known.items.by_id().size();
  if (counts_.size() > 0 && counts_.size() < num_ids) counts_.resize(num_ids);
  known_ = std::make_shared<const KnownIdsOfModel>(std::move(known));
}

}  // namespace convoy::tasks
