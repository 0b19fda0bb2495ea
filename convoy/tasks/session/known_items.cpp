#include "convoy/tasks/session/known_items.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/tasks/session/recommend.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

KnownItems::KnownItems(std::vector<bool> known) : known_(std::move(known)) {
  if (!known_.empty()) known_[0] = true;
}

KnownItems KnownItems::of_run(const fs::path& folder, int64_t num_ids) {
  const auto file = kept_file(folder, kUnseenFile);
  KnownItems out(num_ids);
  if (file.empty()) return out;
  const auto json = parse_json(read_file(file), file.string());
  try {
    for (const auto& stretch : json.at("unseen")) {
      const int64_t first = stretch.at(0), last = stretch.at(1);
      for (int64_t id = std::max<int64_t>(1, first); id <= std::min(last, num_ids - 1); ++id) {
        out.known_[static_cast<size_t>(id)] = false;
      }
    }
  } catch (const Json::exception& error) {
    fail<FileError>("tasks", "{} does not list the items that training never saw: {}",
                    file.string(), json_trouble(error));
  }
  return out;
}

void KnownItems::add(const KnownItems& earlier) {
  const auto both = std::min(known_.size(), earlier.known_.size());
  for (size_t id = 0; id < both; ++id) known_[id] = known_[id] || earlier.known_[id];
}

std::vector<int64_t> KnownItems::unseen() const {
  std::vector<int64_t> out;
  for (int64_t id = 1; id < std::ssize(known_); ++id) {
    if (!knows(id)) out.push_back(id);
  }
  return out;
}

std::string KnownItems::to_json() const {
  Json out{{"num_ids", known_.size()}, {"unseen", Json::array()}};
  const auto ids = unseen();
  for (size_t i = 0; i < ids.size();) {
    size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    out["unseen"].push_back({ids[i], ids[end - 1]});
    i = end;
  }
  return out.dump() + "\n";
}

}  // namespace convoy::tasks
